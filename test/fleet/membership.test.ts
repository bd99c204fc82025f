import { expect, test } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { Clock } from '../../src/engine/types.ts';
import { AdapterError, ConflictError } from '../../src/errors.ts';
import { Membership } from '../../src/fleet/membership.ts';
import type { MembershipNotice } from '../../src/fleet/scale-report.ts';
import { startThreads } from '../../src/fleet/thread-pool.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import type { EngineStart } from '../../src/host/engine-api.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import { TurnsByEngine } from '../../src/router/turns-by-engine.ts';
import { inNoTime, TestClock } from '../clock.ts';
import { connectorDefaults } from '../connector/scripted.ts';
import { platformOf } from './fake-threads.ts';

const engines = (count: number) => ({ count, numBlocks: 8, enablePrefixCaching: true });
const options = {
  model: 'nano',
  prefill: engines(1),
  decode: engines(2),
  mode: 'bidirectional',
  connector: connectorDefaults,
} as ClusterOptions;
const rule = { drain: 'drop', holdsMs: 0 } as const;

/** An engine that joins is ready to serve only once `own.gate` resolves for it. */
async function world(
  starting: (name: string, start: EngineStart) => void = () => {},
  clock: Clock = systemClock,
) {
  const { platform, threads } = platformOf(undefined, starting);
  const pool = await startThreads(platform, clock, options, { checkpoint: null, shared: null });
  const turns = new TurnsByEngine();
  const notices: MembershipNotice[] = [];
  const own = { gate: async (_: string) => {}, room: () => {} };
  const members = new Membership({
    pool,
    clock,
    conversations: new ConversationCache(clock),
    turns,
    options: () => options,
    clientOf: (engine) => engine,
    checkRoom: () => own.room(),
    joins: ({ engineId }) => own.gate(engineId),
    notify: (notice) => void notices.push(notice),
    newId: (name) => name,
  });
  const running = () => threads.flatMap((thread) => (thread.running ? [thread.name] : []));
  const ids = () => pool.all.map(({ engineId }) => engineId);
  return { pool, members, turns, threads, notices, own, running, ids };
}

test('engines join after those of their role; a name that is used again gets a new id and a free port', async () => {
  const { pool, members, ids, notices, running } = await world();
  const up = await members.scale({ prefill: 2 }, rule);
  expect(up.joined).toMatchObject([{ engineId: 'prefill-1', name: 'prefill-1', role: 'prefill' }]);
  expect(ids()).toEqual(['prefill-0', 'prefill-1', 'decode-0', 'decode-1']);
  expect(pool.all.map(({ address }) => address.port)).toEqual([5600, 5603, 5601, 5602]);
  const down = await members.scale({ prefill: 1, decode: 1 }, rule);
  expect(down.left.map(({ engineId }) => engineId)).toEqual(['prefill-1', 'decode-1']);
  const again = await members.scale({ decode: 2 }, rule);
  expect(again.joined.map(({ engineId }) => engineId)).toEqual(['decode-1.2']);
  expect(pool.all.map(({ address }) => address.port)).toEqual([5600, 5601, 5602]);
  expect(notices.map(({ kind }) => kind)).toEqual(['joined', 'leaving', 'leaving', 'left', 'left', 'joined']);
  await members.close();
  expect(running()).toEqual([]);
});

test('scaling down waits for the turns of a leaving engine, and refuses further scaling meanwhile', async () => {
  const { pool, members, turns } = await world();
  const leave = turns.enter(['decode-0', 'decode-1']);
  const scaling = members.scale({ decode: 1 }, rule);
  await expect.poll(() => members.staying.length).toBe(2);
  expect(pool.all).toHaveLength(3);
  const second = members.scale({ decode: 2 }, rule);
  await expect(second).rejects.toThrow('the fleet is being scaled: wait');
  await expect(second).rejects.toThrow(ConflictError);
  leave();
  expect((await scaling).left).toMatchObject([{ engineId: 'decode-1', ended: null }]);
  expect(pool.all).toHaveLength(2);
  await members.close();
});

test('the report of an engine that ended while it was leaving says why', async () => {
  const { members, turns, threads } = await world();
  const leave = turns.enter(['decode-0', 'decode-1']);
  const scaling = members.scale({ decode: 1 }, rule);
  await expect.poll(() => members.staying.length).toBe(2);
  threads[2]!.end();
  leave();
  expect((await scaling).left).toMatchObject([{ engineId: 'decode-1', ended: 'it was ended' }]);
  await members.close();
});

test('if an engine that is being replaced has to leave, its replacement is drained and leaves', async () => {
  const { members, turns, threads, own, ids } = await world();
  threads[2]!.end();
  let ready: (() => void) | null = null;
  own.gate = () =>
    new Promise((resolve) => {
      ready = resolve;
    });
  const revived = members.revive();
  await expect.poll(() => threads.length).toBe(4);
  // decode-1 is to leave because it has ended; by the time it is drained, it has a replacement.
  const scaling = members.scale({ decode: 1 }, rule);
  const leave = turns.enter(['decode-1.2']);
  await expect.poll(() => ready).not.toBeNull();
  ready!();
  expect(await revived).toBe(1);
  await expect.poll(() => members.staying.length).toBe(2);
  expect(threads.at(-1)!.running).toBe(true);
  leave();
  expect((await scaling).left).toMatchObject([{ engineId: 'decode-1.2' }]);
  expect(ids()).toEqual(['prefill-0', 'decode-0']);
  await members.close();
});

test('of several engines that are to be replaced, none is started after close()', async () => {
  const { members, threads, own, running } = await world();
  for (const thread of threads) thread.end();
  let ready: (() => void) | null = null;
  own.gate = () => {
    own.gate = async () => {};
    return new Promise((resolve) => {
      ready = resolve;
    });
  };
  const revived = members.revive();
  await expect.poll(() => ready).not.toBeNull();
  const closed = members.close();
  ready!();
  expect(await revived).toBe(1);
  await closed;
  expect(threads).toHaveLength(4);
  expect(running()).toEqual([]);
});

test('a change to all engines waits for a replacement that is starting, and includes it', async () => {
  const { members, threads, own, ids } = await world();
  threads[2]!.end();
  let ready: (() => void) | null = null;
  own.gate = () =>
    new Promise((resolve) => {
      ready = resolve;
    });
  const revived = members.revive();
  await expect.poll(() => ready).not.toBeNull();
  const changed = members.inTurn(async () => ids());
  const order = [revived.then(() => 'revived'), changed.then(() => 'changed')];
  expect(await Promise.race([...order, new Promise((resolve) => setTimeout(resolve, 20, 'neither'))])).toBe(
    'neither',
  );
  ready!();
  expect(await Promise.race(order)).toBe('revived');
  expect(await changed).toEqual(['prefill-0', 'decode-0', 'decode-1.2']);
  await members.close();
});

test('an engine whose thread is stuck leaves within 60 s, and its requests fail', async () => {
  const clock = new TestClock();
  const { members, pool, threads, turns, ids, notices } = await world(undefined, clock);
  const leave = turns.enter(['decode-0', 'decode-1']);
  const stream = await pool.all[2]!.submit({
    ...{ requestId: 'r', promptTokenIds: [1], sampling: DEFAULT_SAMPLING },
    ...{ kvTransferParams: null, cacheSalt: null },
  });
  threads[2]!.stuck = true;
  const failed = stream[Symbol.asyncIterator]().next().finally(leave);
  const message = 'engine decode-1 ended: its thread did not answer for 60 s';
  const isTold = expect(failed).rejects.toThrow(message);
  const { left } = await inNoTime(clock, members.scale({ decode: 1 }, rule));
  await isTold;
  expect(left).toMatchObject([{ engineId: 'decode-1', ms: 60_000 }]);
  expect(threads[2]!.abandoned).toBe(true);
  expect(ids()).toEqual(['prefill-0', 'decode-0']);
  expect(notices.map(({ kind }) => kind)).toEqual(['leaving', 'left']);
  await members.close();
});

test('an engine whose thread is stuck prevents neither joining nor closing', async () => {
  const clock = new TestClock();
  const { members, pool, threads, ids } = await world(undefined, clock);
  threads[1]!.stuck = true;
  await inNoTime(clock, members.scale({ decode: 3 }, rule));
  expect(pool.all.map(({ dead }) => dead)).toEqual([false, true, false, false]);
  expect(await members.revive()).toBe(1);
  expect(ids()).toEqual(['prefill-0', 'decode-0.2', 'decode-1', 'decode-2']);
  threads[0]!.stuck = true;
  await inNoTime(clock, members.close());
  expect(threads.filter(({ abandoned }) => abandoned).map(({ name }) => name)).toEqual([
    'prefill-0',
    'decode-0',
  ]);
});

test('a peer that ends while a replacement joins does not stop it, and the replacement is told', async () => {
  const { platform, threads } = platformOf((name) => {
    if (name === dies) threads.find((thread) => thread.name === name)!.end();
  });
  let dies: string | null = null;
  const pool = await startThreads(platform, systemClock, options, { checkpoint: null, shared: null });
  threads[0]!.end();
  dies = 'decode-0';
  expect(await pool.replaceDead('bidirectional', async () => {})).toBe(1);
  expect(pool.alive.map(({ engineId }) => engineId)).toEqual(['prefill-0.2', 'decode-1']);
  expect(threads.at(-1)!.died).toEqual(['decode-0']);
  await pool.shutdown();
});

test('scaling up changes nothing if the engines do not fit or one cannot start', async () => {
  const { members, own, ids, running } = await world();
  own.room = () => {
    throw new AdapterError('there is no room');
  };
  await expect(members.scale({ decode: 9 }, rule)).rejects.toThrow('there is no room');
  own.room = () => {};
  own.gate = async () => {
    throw new Error('no policy');
  };
  await expect(members.scale({ decode: 3 }, rule)).rejects.toThrow('no policy');
  expect(ids()).toEqual(['prefill-0', 'decode-0', 'decode-1']);
  expect(running()).toEqual(ids());
  own.gate = async () => {};
  expect((await members.scale({ decode: 3 }, rule)).joined).toHaveLength(1);
  await members.close();
});

test('closing while an engine starts ends that engine too and starts no more', async () => {
  const { members, own, threads, running } = await world();
  let ready: () => void = () => {};
  let waits = false;
  own.gate = () =>
    new Promise((resolve) => {
      waits = true;
      ready = resolve;
    });
  const scaling = members.scale({ decode: 4 }, rule).catch(() => {});
  await expect.poll(() => waits).toBe(true);
  const closing = members.close();
  ready();
  await closing;
  await scaling;
  expect(threads).toHaveLength(4);
  expect(running()).toEqual([]);
});

test('engines that closing has ended are not replaced', async () => {
  const { members, threads, running } = await world();
  const closing = members.close();
  const revived = [members.revive()];
  await closing;
  revived.push(members.revive());
  expect(await Promise.all(revived)).toEqual([0, 0]);
  expect(threads).toHaveLength(3);
  expect(running()).toEqual([]);
});
