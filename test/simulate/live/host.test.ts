/** The thread of a watched fleet, tested by its orders and its news, with a test's wall clock. */
import { expect, test } from 'vitest';
import { LiveHost } from '../../../src/simulate/live/host.ts';
import type { LiveNews, LiveOrder } from '../../../src/simulate/live/protocol.ts';
import { nextTask, settings } from './settings.ts';

/** `slow`: milliseconds that each reading of the wall clock takes. */
function started(orders: readonly LiveOrder[], slow = 0) {
  const news: LiveNews[] = [];
  const wall = { atMs: 0 };
  const waiting: { kind: LiveNews['kind']; count: number; resolve: () => void }[] = [];
  const count = (kind: LiveNews['kind']) => news.filter((each) => each.kind === kind).length;
  const host = new LiveHost({
    clock: {
      now: () => {
        wall.atMs += slow;
        return wall.atMs;
      },
      sleep: async (ms) => {
        wall.atMs += ms;
        await new Promise<void>(nextTask);
      },
    },
    nextTask,
    tell(told) {
      // Messages between threads are copied.
      news.push(structuredClone(told));
      for (const { kind, count: wanted, resolve } of waiting) if (count(kind) >= wanted) resolve();
    },
  });
  for (const order of orders) host.order(order);
  const heard = (kind: LiveNews['kind'], times = 1) =>
    new Promise<void>((resolve) => {
      waiting.push({ kind, count: times, resolve });
      if (count(kind) >= times) resolve();
    });
  const looks = () => news.flatMap((each) => (each.kind === 'look' ? [each] : []));
  return { host, news, heard, looks, wall };
}

test('simulated time passes at the chosen multiple of wall time, and stops when it is paused', async () => {
  const { host, heard, looks, wall } = started([
    { kind: 'start', settings: settings() },
    { kind: 'pace', speed: 4 },
  ]);
  await heard('look', 5);
  host.order({ kind: 'pace', speed: 0 });
  const { look, speed } = looks()[4]!;
  expect(look.nowMs).toBeCloseTo(2000);
  expect(speed).toBeCloseTo(4);
  await heard('look', 6);
  const held = looks().at(-1)!;
  const heldAtMs = wall.atMs;
  // An order takes effect, though no time passes.
  host.order({ kind: 'routing', name: 'least-request' });
  await heard('look', looks().length + 1);
  expect(looks().at(-1)!.look).toMatchObject({ nowMs: held.look.nowMs, routing: 'least-request' });
  expect(wall.atMs).toBe(heldAtMs);
});

test('a machine that is too slow reports the speed that it reaches', async () => {
  const { host, heard, looks } = started(
    [
      { kind: 'start', settings: settings() },
      { kind: 'pace', speed: 10 },
    ],
    60,
  );
  await heard('look', 12);
  host.order({ kind: 'pace', speed: 0 });
  expect(looks()[11]!.speed).toBeLessThan(8);
  expect(looks()[11]!.look.nowMs).toBeGreaterThan(0);
});

test('orders change the fleet, and the path of a turn comes back on request', async () => {
  const { host, news, heard, looks } = started([
    { kind: 'start', settings: settings() },
    { kind: 'pace', speed: 8 },
  ]);
  await heard('look', 2);
  host.order({ kind: 'kill', engineId: 'prefill-1' });
  host.order({ kind: 'kill', engineId: 'prefill-9' });
  host.order({ kind: 'load', load: { ...settings().load, rate: 20 } });
  host.order({ kind: 'autoscale', name: null });
  host.order({ kind: 'scale', target: { decode: 3 } });
  host.order({ kind: 'path', turnId: looks().at(-1)!.look.decisions[0]!.turnId });
  host.order({ kind: 'path', turnId: 'nobody' });
  await heard('look', 6);
  host.order({ kind: 'revive' });
  await heard('look', 10);
  host.order({ kind: 'pace', speed: 0 });
  const { engines, events } = looks().at(-1)!.look;
  const serving = engines.filter(({ state }) => state === 'serving').map(({ engineId }) => engineId);
  expect(serving).toEqual(['prefill-0', 'prefill-1.2', 'decode-0', 'decode-1', 'decode-2']);
  expect(events.map(({ event }) => event)).toEqual(
    expect.arrayContaining(['died', 'load', 'autoscaler', 'joined']),
  );
  expect(news.filter(({ kind }) => kind === 'said')).toEqual([
    { kind: 'said', message: 'prefill-9 is not there any more' },
  ]);
  const paths = news.flatMap((each) => (each.kind === 'path' ? [each.path] : []));
  expect(paths[0]!.pieces.length).toBeGreaterThan(0);
  expect(paths[1]).toBeNull();
});

test('invalid settings are reported, and the next ones are served', async () => {
  const { host, news, heard, looks } = started([
    { kind: 'start', settings: settings({ costs: 'mine' }) },
    { kind: 'kill', engineId: 'prefill-0' },
  ]);
  await heard('failed');
  expect(news).toEqual([{ kind: 'failed', message: expect.stringContaining("no costs 'mine'") }]);
  host.order({ kind: 'start', settings: settings() });
  await heard('look', 2);
  host.order({ kind: 'pace', speed: 0 });
  expect(looks().at(-1)!.look.nowMs).toBeGreaterThan(0);
});

test('a comparison reports its progress and its result, and the next one cancels it', async () => {
  const load = { ...settings().load, rate: 30 };
  const compare = (seconds: number): LiveOrder => ({
    kind: 'compare',
    settings: settings({ load, blocks: 256 }),
    policies: ['round-robin', 'random'],
    seconds,
  });
  const { host, news, heard } = started([compare(100_000)]);
  await heard('comparing', 2);
  host.order(compare(1));
  await heard('compared');
  const compared = news.flatMap((each) => (each.kind === 'compared' ? [each.comparison] : []));
  expect(compared).toHaveLength(1);
  expect(compared[0]).toMatchObject({
    seconds: 1,
    policies: [{ policy: 'round-robin' }, { policy: 'random' }],
  });
  expect(news.some(({ kind }) => kind === 'failed')).toBe(false);
});
