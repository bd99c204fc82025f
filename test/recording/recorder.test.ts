import { expect, it } from 'vitest';
import type { BlockFact } from '../../src/engine/inspect/block-facts.ts';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import type { Cluster } from '../../src/fleet/types.ts';
import { onHost, type Span } from '../../src/measure/spans/spans.ts';
import type { SessionEvent } from '../../src/recording/events.ts';
import { Recorder } from '../../src/recording/recorder.ts';
import type { GeneratedToken, GenerateRequest } from '../../src/router/turn-types.ts';
import { BlockNews, type StoreCell } from '../../src/store/block-news.ts';
import type { StoreStats } from '../../src/store/stats.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import { settled, TestClock } from '../clock.ts';

const P = { engineId: 'x', role: 'prefill' } as const;
const D = { engineId: 'y', role: 'decode' } as const;

const fact: BlockFact = {
  id: 3,
  group: null,
  use: 'running',
  hit: false,
  requestId: 'r1',
  index: 0,
  origin: 'computed',
  tokens: 2,
  refCount: 1,
  hash: null,
  evictions: 0,
  evicted: false,
  hold: null,
};

const noStoreCounters: StoreStats['counters'] = {
  ...{ lookups: 0, hits: 0, stored: 0, evicted: 0, refused: 0 },
  ...{ offers: 0, taken: 0, known: 0, lost: 0, loads: 0, raised: 0, raisedFar: 0 },
};

/** A recorder of a fake cluster whose notices and snapshots the test controls. */
function recorded(
  store: { memory: StoreCell[]; folder: string[] | null; stats: StoreStats } | null = null,
  settings: object = {},
) {
  const storeNews = new BlockNews();
  const events: SessionEvent[] = [];
  const listeners = {
    notice: (_: ClusterNotice) => {},
    span: (_: Span) => {},
    waiting: (_requestId: string, _reason: string) => {},
  };
  const stats = { prefixCache: { queries: 0, hits: 0 } };
  const blocks = { numBlocks: 8, facts: [fact], slab: { slotsInUse: 1, slots: 4, slotBytes: 64 } };
  const cluster = {
    mode: 'bidirectional',
    settings: { blockSize: 2, store: store && {}, ...settings },
    storeBlocks: async (since: number) =>
      store && { ...storeNews.news(since, store.memory, store.folder), queues: null },
    storeStats: async () => store?.stats ?? null,
    info: {
      adapter: {},
      model: {},
      engines: [P, D].map((engine) => ({ ...engine, memory: {} })),
      link: null,
    },
    decode: (ids: readonly number[]) => ids.join(' '),
    generate: (_: GenerateRequest): AsyncGenerator<GeneratedToken> => {
      throw new Error('nobody said what it generates');
    },
    snapshot: async () => [P, D].map((engine) => ({ ...engine, blocks, stats })),
    onWaiting(listener: (requestId: string, reason: string) => void) {
      listeners.waiting = listener;
      return () => {};
    },
    onNotice(listener: (notice: ClusterNotice) => void) {
      listeners.notice = listener;
      return () => {};
    },
    onSpan(listener: (span: Span) => void) {
      listeners.span = listener;
      return () => {};
    },
  };
  const clock = new TestClock();
  const recorder = new Recorder(cluster as unknown as Cluster, (event) => events.push(event), clock, 0);
  const of = (kind: SessionEvent['kind']) => events.filter((event) => event.kind === kind);
  return {
    recorder,
    of,
    tell: (notice: ClusterNotice) => listeners.notice(notice),
    listeners,
    cluster,
    clock,
  };
}

const turn = (turnId: string): ClusterNotice => ({
  kind: 'turn',
  turnId,
  conversationId: 'c',
  turn: 1,
  promptTokenIds: [7, 8],
  atMs: 0,
  routed: null,
});

const pull = (engine: typeof P | typeof D, requestId: string, remoteEngineId: string): ClusterNotice => ({
  kind: 'engine',
  ...engine,
  event: { kind: 'pull', requestId, remoteEngineId, pairs: [], streamed: false, bytes: 0, atMs: 0 },
});

it('blocks and transfers are attributed to turns by notices, not by request ids or engine names', async () => {
  const { recorder, of, tell } = recorded();
  tell(turn('t'));
  tell({ kind: 'request', requestId: 'r1', turnId: 't', side: 'prefill', engineId: 'y' });
  await recorder.poll();
  expect(of('blocks')).toMatchObject([
    { engineId: 'x', numBlocks: 8, changed: [{ id: 3, conversation: 'c', text: '7 8' }] },
    { engineId: 'y' },
  ]);
  expect(of('slab')).toMatchObject([{ engineId: 'x', slotsInUse: 1 }, { engineId: 'y' }]);

  // An engine of either role may prefill.
  tell(pull(D, 'r1', 'x'));
  const result = emptyResult('done', '', 1);
  const event = { kind: 'transfer', requestId: 'r1', remoteEngineId: 'x', result, atMs: 0 } as const;
  tell({ kind: 'engine', ...D, event });
  const transfer = { requestId: 'r1', from: 'x', to: 'y', side: 'prefill' };
  expect(of('transfer_started')).toMatchObject([transfer]);
  expect(of('transfer_ended')).toMatchObject([transfer]);
  tell(pull(D, 'of nobody', 'x'));
  expect(of('transfer_started').at(-1)).toMatchObject({ side: 'decode' });
});

it('the recorder polls blocks soon after a request starts', async () => {
  const { of, tell, cluster, clock } = recorded();
  const { snapshot } = cluster;
  let taken = false;
  cluster.snapshot = async () => (taken ? snapshot() : []);
  tell(turn('t'));
  tell({ kind: 'request', requestId: 'r1', turnId: 't', side: 'prefill', engineId: 'x' });
  await settled();
  expect(of('blocks')).toHaveLength(0);
  taken = true;
  while (clock.skip()) await settled();
  expect(of('blocks')[0]).toMatchObject({ engineId: 'x', changed: [{ id: 3, state: 'computed' }] });
});

it("blocks that move to another engine are attributed to the conversation's last turn", async () => {
  const { recorder, of, tell, cluster } = recorded();
  cluster.generate = async function* () {
    tell(turn('t'));
    yield { index: 0, tokenId: 9, text: 'so', logitsDigest: '', atMs: 0, final: null } as GeneratedToken;
  };
  const request = { conversationId: 'c', promptTokenIds: [7, 8] } as GenerateRequest;
  for await (const _ of recorder.generate(request, { question: 'why?', edited: false }));
  tell({ kind: 'moves', requestId: 'of nobody', conversationId: 'another' });
  tell({ kind: 'moves', requestId: 'r1', conversationId: 'c' });
  await recorder.poll();
  expect(of('blocks').at(-2)).toMatchObject({
    engineId: 'x',
    changed: [{ id: 3, conversation: 'c', turn: 1, text: '7 8' }],
  });
});

it.each([
  [{ holds: 2, tokens: 120 }, '; KV of 120 tokens that it held is lost'],
  // Requests that did not come through the router.
  [{ holds: 1, tokens: 0 }, '; KV that it held of 1 request is lost'],
  [{ holds: 0, tokens: 0 }, ''],
])('a note reports the KV lost with an engine that left: %j', (lost, expected) => {
  const { of, tell } = recorded();
  tell({ kind: 'left', ...P, name: 'x', ms: 5, migrated: { holds: 0, tokens: 0 }, lost, ended: null });
  expect(of('note').at(-1)).toMatchObject({ message: `x left the fleet${expected}.` });
});

it('all blocks are recorded again for an engine that replaced a dead one', async () => {
  const { recorder, of, tell } = recorded();
  await recorder.poll();
  await recorder.poll();
  expect(of('blocks')).toHaveLength(2);
  tell({ kind: 'dead', ...P, message: 'x: killed', reason: 'killed' });
  tell({ kind: 'alive', ...P, replaces: null });
  await recorder.poll();
  expect(of('blocks').map((event) => event.kind === 'blocks' && event.engineId)).toEqual(['x', 'y', 'x']);
  expect(of('engine').at(-2)).toMatchObject({ ...P, alive: false, message: 'x: killed' });
});

it('the recorder forgets an engine that is missing from a snapshot', async () => {
  const { recorder, of, cluster } = recorded();
  const both = await cluster.snapshot();
  for (const snapshots of [both, both.slice(1), both]) {
    cluster.snapshot = async () => snapshots;
    await recorder.poll();
  }
  expect(of('blocks')).toMatchObject([{ engineId: 'x' }, { engineId: 'y' }, { engineId: 'x' }]);
});

it('store events list blocks that come and go, and saves appear as transfers to the store', async () => {
  const counters = { ...noStoreCounters, lookups: 4, hits: 3 };
  const stats = { slots: 8, blocks: 1, inUse: 0, blockBytes: 64, counters, folder: null, server: null };
  const memory: StoreCell[] = [{ id: 2, key: 'ab', state: 'ready' }];
  const store = { memory, folder: null as string[] | null, stats };
  const { recorder, of, tell } = recorded(store);
  await recorder.poll();
  expect(of('store')).toMatchObject([{ figures: { slots: 8, blocks: 1, lookups: 4, hits: 3 } }]);
  const cell = { id: 2, state: 'cached', hash: 'ab', conversation: null };
  expect(of('store_blocks')).toMatchObject([{ tier: 'memory', numBlocks: 8, changed: [cell] }]);
  await recorder.poll();
  expect(of('store_blocks')).toHaveLength(1);
  // Another block takes its own cell and the first is gone. Folder cells are assigned by the recorder.
  store.memory = [{ id: 3, key: 'cd', state: 'read' }];
  store.folder = ['ef', 'cd'];
  await recorder.poll();
  const [, inMemory, folder] = of('store_blocks');
  expect(inMemory).toMatchObject({
    changed: [
      { id: 3, state: 'held' },
      { id: 2, state: 'free' },
    ],
  });
  expect(folder).toMatchObject({ tier: 'folder', numBlocks: 2, changed: [{ hash: 'ef' }, { hash: 'cd' }] });

  const saved = { requestId: 'r1', remoteEngineId: 'store', pairs: [[3, 2] as [number, number]], bytes: 64 };
  tell({ kind: 'engine', ...P, event: { kind: 'saved', ...saved, startedMs: 5, atMs: 9 } });
  const way = { requestId: 'r1', from: 'x', to: 'store' };
  expect(of('transfer_started')).toMatchObject([{ ...way, atMs: 5, pairs: [[3, 2]], bytes: 64 }]);
  expect(of('transfer_ended')).toMatchObject([{ ...way, atMs: 9, ms: 4, blocks: 1, outcome: 'done' }]);
});

it('spans of one tick are recorded together with their turns, without the ttft and turn spans', async () => {
  const { recorder, of, listeners } = recorded();
  const turns = [{ turnId: 't', side: 'decode' }] as const;
  const span = (name: string): Span => ({
    name,
    ...onHost('y'),
    startMs: 1,
    endMs: 2,
    clock: 'host',
    requestId: 'r1',
    turns,
    args: {},
  });
  for (const name of ['lookup', 'ttft', 'turn', 'queue']) listeners.span(span(name));
  await Promise.resolve();
  listeners.span(span('step'));
  recorder.detach();
  expect(of('spans')).toMatchObject([
    { spans: [{ name: 'lookup', engineId: 'y', lane: 'host', turns }, { name: 'queue' }] },
    { spans: [{ name: 'step' }] },
  ]);
});

it('a note says that a request waits, unless its KV is visibly in transit', () => {
  const { of, tell, listeners } = recorded();
  tell(pull(P, 'r1', 'y'));
  listeners.waiting('r1', 'x: waits for KV from y');
  listeners.waiting('r2', 'x: waits for blocks');
  const result = emptyResult('done', '', 1);
  const event = { kind: 'transfer', requestId: 'r1', remoteEngineId: 'y', result, atMs: 0 } as const;
  tell({ kind: 'engine', ...P, event });
  listeners.waiting('r1', 'x: waits for its turn');
  expect(of('note')).toMatchObject([
    { message: 'x: waits for blocks' },
    { message: 'x: waits for its turn' },
  ]);
});

it('a transfer over a link between its two engines is marked as throttled', () => {
  const between = ['x', 'y'];
  const link = { name: 'l', bytesPerSecond: 1, latencyMs: 0 };
  for (const links of [[], [{ between, link }]]) {
    const { of, tell } = recorded(null, { fleet: { links } });
    const result = emptyResult('done', '', 1);
    const event = { kind: 'transfer', requestId: 'r1', remoteEngineId: 'x', result, atMs: 0 } as const;
    tell({ kind: 'engine', ...D, event });
    expect(of('transfer_ended')).toMatchObject([{ throttled: links.length > 0 }]);
  }
});

it('a turn refused before it begins records no failure', async () => {
  const { recorder, of, tell, cluster } = recorded();
  const asking = async (turnId: string | null) => {
    cluster.generate = async function* () {
      if (turnId !== null) tell(turn(turnId));
      yield await Promise.reject(new Error('no engine is alive'));
    };
    const request = { conversationId: 'c', promptTokenIds: [7, 8] } as GenerateRequest;
    await recorder.generate(request, { question: 'why?', edited: false }).next();
  };
  const failed = () => of('turn_failed').map((event) => event.kind === 'turn_failed' && event.turnId);
  await expect(asking('t1')).rejects.toThrow('no engine is alive');
  expect(failed()).toEqual(['t1']);
  await expect(asking(null)).rejects.toThrow('no engine is alive');
  expect(failed()).toEqual(['t1']);
  await expect(asking('t2')).rejects.toThrow('no engine is alive');
  expect(failed()).toEqual(['t1', 't2']);
});
