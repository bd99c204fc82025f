/** A fleet that is no longer watched starts nothing. */
import { expect, it, vi } from 'vitest';

const workers = vi.hoisted(() => ({ started: 0 }));

it('a measurement that arrives after the fleet view was left starts no worker and is used on return', async () => {
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
  vi.doMock('../../demo/src/session/experiments/costs.ts', async () => {
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
