/** A fleet that nobody sees: its view was left, or its tab is in the background. */
import { beforeEach, expect, it, vi } from 'vitest';
import type { LiveOrder } from '../../src/simulate/live/protocol.ts';

const workers = vi.hoisted(() => ({ started: 0, told: [] as LiveOrder[] }));
const tab = {
  visibilityState: 'visible',
  addEventListener: () => {},
  removeEventListener: () => {},
};

beforeEach(() => {
  Object.assign(workers, { started: 0, told: [] });
  vi.stubGlobal('location', { hash: '#view=fleet', href: 'http://localhost/#view=fleet' });
  vi.stubGlobal('history', { replaceState: () => {} });
  vi.stubGlobal('addEventListener', () => {});
  vi.stubGlobal('removeEventListener', () => {});
  vi.stubGlobal('document', tab);
  vi.stubGlobal(
    'Worker',
    class {
      constructor() {
        workers.started++;
      }
      addEventListener() {}
      postMessage(order: LiveOrder) {
        workers.told.push(order);
      }
      terminate() {}
    },
  );
});

it('a measurement that arrives after the fleet view was left starts no worker and is used on return', async () => {
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

it('a fleet opened in a background tab stands still', async () => {
  const { Fleet } = await import('../../demo/src/fleet/fleet.ts');
  tab.visibilityState = 'hidden';
  const leave = new Fleet().watch();
  expect(workers.told.findLast(({ kind }) => kind === 'pace')).toMatchObject({ speed: 0 });
  leave();
});
