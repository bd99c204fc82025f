/** A fleet that nobody watches any more starts nothing. */
import { expect, it, vi } from 'vitest';

const workers = vi.hoisted(() => ({ started: 0 }));

it('what was measured for it comes when it was left: nothing is begun, and who comes back finds it', async () => {
  vi.stubGlobal('location', { hash: '#view=fleet', href: 'http://localhost/#view=fleet' });
  vi.stubGlobal('history', { replaceState: () => {} });
  vi.stubGlobal('addEventListener', () => {});
  vi.stubGlobal('removeEventListener', () => {});
  vi.stubGlobal('document', {
    visibilityState: 'visible',
    addEventListener: () => {},
    removeEventListener: () => {},
  });
  vi.stubGlobal(
    'Worker',
    class {
      constructor() {
        workers.started++;
      }
      addEventListener() {}
      postMessage() {}
      terminate() {}
    },
  );
  vi.doMock('../../demo/src/session/costs.ts', async () => {
    const { signal } = await import('@preact/signals');
    return { costsHere: signal({ costs: 'here', kvBytesPerToken: 1 }) };
  });
  const { Fleet } = await import('../../demo/src/fleet/fleet.ts');
  const fleet = new Fleet();
  const leave = fleet.watch();
  expect(workers.started).toBe(1);
  leave();
  fleet.measured();
  expect(workers.started).toBe(1);
  expect(new Fleet().settings.value.costs).toBe('measured');
});
