/** StoreThread, the cluster's handle on a store, over fake threads that only reply to calls. */
import { expect, test } from 'vitest';
import type { Clock } from '../../src/engine/types.ts';
import { EngineDeadError } from '../../src/errors.ts';
import type { EnginePool } from '../../src/fleet/engine-pool.ts';
import { StoreThread, startStore } from '../../src/fleet/store-thread.ts';
import { STUCK_MS } from '../../src/fleet/stuck-watch.ts';
import type { ThreadEngine } from '../../src/fleet/thread-engine.ts';
import type { ClusterOptions, StoreOptions } from '../../src/fleet/types.ts';
import { expose } from '../../src/host/rpc.ts';
import { systemClock } from '../../src/platform/clock.ts';
import type { Platform } from '../../src/platform/types.ts';
import type { StoreApi } from '../../src/store/host.ts';
import { StoreReport } from '../../src/store/report.ts';
import { type EngineWire, plainWire } from '../../src/transport/channel.ts';
import type { EngineIdentity } from '../../src/transport/types.ts';
import { inNoTime, TestClock } from '../clock.ts';

const shared = { identity: {} as EngineIdentity, checksum: false, namespace: 'n' };

/** A fake store thread that starts, answers and ends. */
function threadOf() {
  const { port1, port2 } = new MessageChannel();
  let exit: (reason: string) => void = () => {};
  let ended = false;
  let stays = false;
  const shutdown = async () => {
    ended = true;
    if (stays) return;
    port1.close();
    exit('it was closed');
  };
  expose({ start: async () => {}, addPeer: async () => {}, stats: async () => ({}), shutdown }, port2);
  const onExit = (listener: typeof exit) => {
    exit = listener;
  };
  const thread = { port: port1, onExit, abandon: () => port1.close() };
  const platform = { startStoreThread: async () => thread } as Partial<Platform> as Platform;
  const staysAfter = () => {
    stays = true;
  };
  return { platform, ended: () => ended, staysAfter };
}

/** `asked`: what the store's thread does when it is asked to add a peer. */
async function world(asked: 'answers' | 'ends' | 'is stuck' = 'answers', clock: Clock = systemClock) {
  const { port1, port2 } = new MessageChannel();
  let exit: (reason: string) => void = () => {};
  const end = (reason: string) => {
    port1.close();
    exit(reason);
  };
  let stuck = false;
  let written = 0;
  const addPeer = () => {
    if (asked === 'answers') return Promise.resolve();
    if (asked === 'ends') end('out of memory');
    stuck = true;
    return new Promise(() => {});
  };
  let writes = 0;
  const stats = () =>
    stuck
      ? new Promise(() => {})
      : Promise.resolve({ folder: { counters: { written, leftOut: 0 } }, server: null });
  const clear = async () => {
    stuck ||= asked === 'is stuck';
    if (stuck || Number.isNaN(writes)) return new Promise(() => {});
    for (; writes > 0; writes--, written++) await clock.sleep(STUCK_MS / 2);
  };
  const shutdown = async () => {
    await clear();
    end('it was closed');
  };
  const keys = new Set<string>();
  let report: StoreReport | null = null;
  const start: StoreApi['start'] = async (_, __, onEvents) => {
    report = new StoreReport(16, (events, to) => onEvents(events, 0, to));
  };
  const reportEvents: StoreApi['reportEvents'] = async (to) =>
    to === null ? report!.stop() : report!.begin(to, [['CPU', [...keys]]]);
  const stored = (key: string) => {
    keys.add(key);
    report!.changedIn('CPU')('stored', key);
  };
  expose({ start, addPeer, stats, clear, shutdown, reportEvents }, port2);
  const onExit = (listener: typeof exit) => {
    exit = listener;
  };
  const abandon = () => port1.close();
  const platform = { startStoreThread: async () => ({ port: port1, onExit, abandon }) } as Partial<Platform>;
  const wired: string[] = [];
  const wire: EngineWire = (a, b) => {
    wired.push(`${a.engineId} ${b.engineId}`);
    return plainWire(a, b);
  };
  const options = { bytes: 1, eviction: 'lru' } as unknown as StoreOptions;
  const store = await StoreThread.start(platform as Platform, options, shared, clock, wire);
  const died: string[] = [];
  const engine = (engineId: string) =>
    ({
      engineId,
      address: { engineId, host: 'localhost', port: 5600 },
      serving: { addPeer: async () => {}, peerDied: async () => void died.push(engineId) },
      onDeath() {},
    }) as unknown as ThreadEngine;
  const troubles: string[] = [];
  store.onTrouble((message) => troubles.push(message));
  const hasToWrite = (blocks: number) => {
    writes = blocks;
  };
  return { store, engine, wired, died, troubles, hasToWrite, stored };
}

test('an engine that joins later is connected through the same wire', async () => {
  const { store, engine, wired } = await world();
  await store.connect(engine('decode-0'));
  await store.connect(engine('decode-0.2'));
  expect(wired).toEqual(['decode-0 store', 'decode-0.2 store']);
  await store.shutdown();
});

test('a store that ends while an engine connects does not block the engine, which is told', async () => {
  const { store, engine, died } = await world('ends');
  await store.connect(engine('decode-0'));
  expect(store.ended).toBe('out of memory');
  expect(died).toEqual(['decode-0']);
});

test('a store whose first engine ends while it connects ends as well', async () => {
  const { platform, ended } = threadOf();
  const dies = {
    ...{ engineId: 'decode-0', address: { engineId: 'decode-0', host: 'localhost', port: 5600 } },
    started: { identity: { blockBytes: [] }, adapter: { name: 'none' } },
    serving: { addPeer: () => Promise.reject(new EngineDeadError('it was ended')) },
  } as unknown as ThreadEngine;
  const engines = { all: [dies], shutdown: async () => {} } as unknown as EnginePool;
  const options = { store: { bytes: 1, eviction: 'lru' }, checksum: false, link: null } as ClusterOptions;
  const none = { files: null, checkpoint: null };
  const starting = startStore(platform, options, engines, none, systemClock);
  await expect(starting).rejects.toThrow('it was ended');
  expect(ended()).toBe(true);
});

test('a store that is stuck while an engine connects is abandoned, and requests continue without it', async () => {
  const clock = new TestClock();
  const { store, engine, died, troubles } = await world('is stuck', clock);
  await inNoTime(clock, store.connect(engine('decode-0')));
  expect(died).toEqual(['decode-0']);
  const reason = 'its thread did not answer for 60 s';
  expect(store.ended).toBe(reason);
  expect(troubles).toEqual([`the store ended (${reason}): requests go on without it`]);
  expect(await store.stats()).toBeNull();
  await store.shutdown();
});

test('a store that writes for long before it is empty is waited for as long as it writes', async () => {
  const clock = new TestClock(0);
  const { store, hasToWrite, troubles } = await world('answers', clock);
  hasToWrite(10);
  await inNoTime(clock, store.clear());
  expect([store.ended, troubles]).toEqual([null, []]);
  expect(clock.now()).toBeGreaterThanOrEqual(5 * STUCK_MS);
  await store.shutdown();
});

test('a store that is stuck while it empties its memory is abandoned', async () => {
  const clock = new TestClock();
  const { store } = await world('is stuck', clock);
  await inNoTime(clock, store.clear());
  expect(store.ended).toBe('its thread did not answer for 60 s');
});

test.each(['clear', 'shutdown'] as const)(
  'a store whose writes never end is abandoned in %s, though it answers',
  async (method) => {
    const clock = new TestClock();
    const { store, hasToWrite } = await world('answers', clock);
    hasToWrite(Number.NaN);
    await inNoTime(clock, store[method]());
    expect(store.ended).toBe('it wrote nothing for 60 s');
  },
);

test('a store that writes for long at shutdown is waited for as long as it writes', async () => {
  const clock = new TestClock(0);
  const { store, hasToWrite, troubles } = await world('answers', clock);
  hasToWrite(10);
  await inNoTime(clock, store.shutdown());
  expect([store.ended, troubles]).toEqual(['it was closed', []]);
  expect(clock.now()).toBeGreaterThanOrEqual(5 * STUCK_MS);
});

test('a store that has answered at shutdown and does not end, since file calls hang, is soon abandoned', async () => {
  const clock = new TestClock(0);
  const { platform, staysAfter } = threadOf();
  staysAfter();
  const options = { bytes: 1, eviction: 'lru' } as unknown as StoreOptions;
  const store = await StoreThread.start(platform, options, shared, clock);
  await inNoTime(clock, store.shutdown());
  expect(store.ended).toBe('it did not end within 5 s');
  expect(clock.now()).toBeLessThan(STUCK_MS);
});

test('each listener first gets the blocks that are in the store, and then every change once', async () => {
  const { store, stored } = await world();
  const heard: string[][] = [[], []];
  const listen = (index: number) =>
    store.onEvents(({ events }) => {
      for (const event of events) if (event.kind === 'stored') heard[index]!.push(...event.blockHashes);
    });
  stored('a');
  const stops = [listen(0)];
  await expect.poll(() => heard[0]).toEqual(['a']);
  stored('b');
  stops.push(listen(1));
  stored('c');
  await expect
    .poll(() => heard)
    .toEqual([
      ['a', 'b', 'c'],
      ['a', 'b', 'c'],
    ]);
  stops[0]!();
  stored('d');
  await expect.poll(() => heard[1]).toEqual(['a', 'b', 'c', 'd']);
  expect(heard[0]).toHaveLength(3);
  stops[1]!();
  await store.shutdown();
});
