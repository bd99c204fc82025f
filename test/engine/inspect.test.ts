/** What an engine shows of itself (its blocks, its activity, why requests wait), and its integrity checks. */
import { describe, expect, it } from 'vitest';
import { STORE_PORT } from '../../src/config/connectors.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import { faded } from '../../src/engine/inspect/engine-load.ts';
import { checkHolds, checkQueues } from '../../src/engine/inspect/integrity.ts';
import { waitingReason } from '../../src/engine/inspect/waiting-reason.ts';
import type { KvCacheManager } from '../../src/engine/kv-cache-manager.ts';
import { Request } from '../../src/engine/request.ts';
import { RequestQueues } from '../../src/engine/scheduler.ts';
import type { EngineActivity, RequestStatus } from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';
import { connectorWith, decodeRequest, prefillRequest, ScriptedEngine } from '../connector/scripted.ts';
import { engineConfig, request, TestEngine, tokens } from './fakes.ts';

describe('integrity checks', () => {
  const hashing = { hasher: createBlockHasher('test'), blockSize: 16 };

  /** Requests named after the queue they are in, with block tables by request id; consistent unless changed. */
  function books(
    changes: Partial<{ sees: boolean; blocks: Record<string, number[]>; owners: string[] }> = {},
  ) {
    const queues = new RequestQueues();
    const make = (id: string, status: RequestStatus, numComputedTokens = 20) => {
      const made = new Request(request(id, tokens(30)), 0, hashing);
      queues.known.set(id, made);
      return Object.assign(made, { status, numComputedTokens });
    };
    queues.waiting.push(make('waiting', 'waiting', 0), make('preempted', 'preempted', 0));
    queues.loading.add(make('loading', 'waiting_for_remote_kvs'));
    queues.loaded.push(make('loaded', 'waiting'));
    queues.running.push(make('running', 'running'));
    const held = make('held', 'finished_stopped');
    held.heldFor = 'reader';
    const blocks: Record<string, number[]> = {
      ...{ loading: [1, 2], loaded: [3, 4], running: [5, 6], held: [7, 8] },
      ...changes.blocks,
    };
    const cache = {
      blockSize: 16,
      owners: () => changes.owners ?? Object.keys(blocks),
      hasBlocks: ({ requestId }: Request) => blocks[requestId] !== undefined,
      blocksFor: (count: number) => Math.ceil(count / 16),
      blockIds: ({ requestId }: Request) => [blocks[requestId] ?? []],
      sees: () => changes.sees ?? true,
    } as unknown as KvCacheManager;
    return { queues, cache };
  }

  const check = ({ queues, cache }: ReturnType<typeof books>) => checkQueues({ queues, cache });

  it('pass on consistent queues and tables', () => {
    expect(() => check(books())).not.toThrow();
  });

  it.each<[string, (made: ReturnType<typeof books>) => void, string]>([
    ['in two queues', ({ queues }) => queues.running.push(queues.running[0]!), 'running is in two queues'],
    ['unknown', ({ queues }) => queues.known.delete('loaded'), 'loaded is loaded and unknown'],
    ['in no queue', ({ queues }) => queues.running.pop(), '6 requests are known, 5 are in a queue'],
    [
      'waiting but has status running',
      ({ queues }) => Object.assign(queues.waiting[0]!, { status: 'running' }),
      'waiting is waiting with status running',
    ],
    [
      'running but has status waiting',
      ({ queues }) => Object.assign(queues.running[0]!, { status: 'waiting' }),
      'running is running with status waiting',
    ],
    [
      'loaded but has status waiting_for_remote_kvs',
      ({ queues }) => Object.assign(queues.loaded[0]!, { status: 'waiting_for_remote_kvs' }),
      'loaded is loaded with status',
    ],
    [
      'loading but has status waiting',
      ({ queues }) => Object.assign([...queues.loading][0]!, { status: 'waiting' }),
      'loading is loading with status',
    ],
    [
      'held but has status running',
      ({ queues }) => Object.assign(queues.known.get('held')!, { status: 'running' }),
      'held is held with status running',
    ],
    [
      'short of blocks for its computed tokens',
      ({ queues }) => Object.assign(queues.running[0]!, { numComputedTokens: 33 }),
      'running has 2 blocks for 33 tokens',
    ],
  ])('detect a request that is %s', (_, spoil, told) => {
    const made = books();
    spoil(made);
    expect(() => check(made)).toThrow(told);
  });

  it('detect blocks of a waiting or unknown request, and an active request without blocks', () => {
    expect(() => check(books({ blocks: { waiting: [9] } }))).toThrow('waiting is waiting and has blocks');
    expect(() => check(books({ owners: ['nobody'] }))).toThrow('nobody has blocks and is in no queue');
    const made = books();
    made.cache.hasBlocks = ({ requestId }) => requestId === 'held';
    expect(() => check(made)).toThrow('and has no blocks');
  });

  it('detect a request that lacks blocks its window sees', () => {
    expect(() => check(books({ sees: false }))).toThrow('does not have what a window sees');
  });

  it('detect holds that only the worker side has, and held blocks missing from the table', () => {
    const { queues, cache } = books();
    const holds = (requestId: string, ids: number[]) => () =>
      checkHolds([{ requestId, blockIds: [ids] }], { queues, cache });
    expect(holds('held', [8, 7])).not.toThrow();
    expect(holds('held', [7, 9])).toThrow('held holds block 9, which is not in its table');
    expect(holds('running', [5])).toThrow('running is held by the worker side alone');
    expect(holds('nobody', [])).toThrow('nobody is held by the worker side alone');
  });
});

describe('inspect.blocks()', () => {
  it('shows each block’s owner, use, hold, hash, origin and token count', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('a', tokens(40), tokens(40).slice(0, 16)));
    await engine.step();
    expect(
      engine.core.inspect.blocks().map(({ id, use, origin, tokens: count }) => [id, use, origin, count]),
    ).toEqual([[1, 'arriving', 'pulled', 16]]);
    engine.receive('a');
    await engine.settle();
    const facts = engine.core.inspect.blocks();
    expect(facts.map(({ id, use, origin, index, tokens: count }) => [id, use, origin, index, count])).toEqual(
      [
        [1, 'held', 'pulled', 0, 16],
        [2, 'held', 'computed', 1, 16],
        [3, 'held', 'computed', 2, 8],
      ],
    );
    const { deadline, direction } = engine.worker.sending.get('a')!;
    for (const fact of facts)
      expect(fact).toMatchObject({
        requestId: 'a',
        group: null,
        hit: false,
        refCount: 1,
        hold: { direction, deadlineMs: deadline },
      });
    expect(facts.map(({ hash }) => hash !== null)).toEqual([true, true, false]);

    engine.worker.finishSending('a');
    engine.add(request('b', tokens(40), { maxTokens: 4 }));
    await engine.step();
    const again = engine.core.inspect.blocks().filter(({ use }) => use === 'running');
    // A block that is hit keeps its origin.
    expect(again.map(({ id, hit, origin, requestId }) => [id, hit, origin, requestId])).toContainEqual([
      1,
      true,
      'pulled',
      'b',
    ]);
    expect(again.find(({ index }) => index === 2)).toMatchObject({ hit: false, origin: 'computed' });
    await engine.settle();
    expect(
      engine.core.inspect.blocks().every(({ use, hold, evicted }) => use === 'left' && !hold && !evicted),
    ).toBe(true);
    const { inspect } = engine.core;
    expect(inspect.blocks().map(({ id }) => id)).toEqual(inspect.blocks().map((_, i) => i + 1));
    engine.core.resetPrefixCache();
    expect(
      engine.core.inspect
        .blocks()
        .filter(({ evicted }) => evicted)
        .map(({ id }) => id),
    ).toEqual([1, 2]);
  });
});

it('a block that a load still writes stays "arriving" after its request was aborted', async () => {
  const engine = new ScriptedEngine();
  engine.add(decodeRequest('d', tokens(40)));
  await engine.step();
  engine.core.abortRequest('d');
  await engine.step();
  const uses = () => engine.core.inspect.blocks().map(({ use }) => use);
  expect(uses()).toEqual(['arriving', 'arriving', 'arriving']);
  engine.receive('d');
  await engine.settle();
  expect(uses()).toEqual(['left', 'left', 'left']);
});

it.each(['aborted before', 'lost by it'])(
  'after a partial load only the block that arrived counts tokens: request %s',
  async (end) => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    if (end === 'aborted before') engine.core.abortRequest('d');
    await engine.step();
    engine.worker.failRecving('d', 'failed', engine.blocks('d').slice(1) as number[]);
    await engine.settle();
    const left = engine.core.inspect.blocks().map(({ use, tokens: count }) => [use, count]);
    expect(left).toEqual([
      ['left', 16],
      ['left', 0],
      ['left', 0],
    ]);
  },
);

it('blocks of an engine with groups show their group and index, also in a load that follows a hit', async () => {
  const engine = new ScriptedEngine({ groups: [{ kind: 'full' }, { kind: 'full' }] });
  engine.add(request('before', tokens(20), { maxTokens: 1 }));
  await engine.settle();
  const two = {
    remote_block_ids: [
      [901, 902, 903],
      [904, 905, 906],
    ],
  };
  engine.add(decodeRequest('d', tokens(40), 4, two));
  await engine.step();
  const mine = engine.core.inspect.blocks().filter(({ requestId }) => requestId === 'd');
  expect(mine.map(({ group, index, use, hit }) => [group, index, use, hit])).toEqual([
    [0, 0, 'running', true],
    [1, 0, 'running', true],
    [0, 1, 'arriving', false],
    [0, 2, 'arriving', false],
    [1, 1, 'arriving', false],
    [1, 2, 'arriving', false],
  ]);
});

describe('an engine', () => {
  it('reports activity for requests that start, load or prefill, and none for decode-only steps', async () => {
    const told: EngineActivity[] = [];
    const clock = new TestClock(0);
    const engine = new TestEngine(engineConfig({ maxNumBatchedTokens: 16 }), {
      clock,
      onActivity: (each) => told.push(each),
    });
    engine.model.duringBatch = () => clock.advance(7);
    engine.add(request('a', tokens(20), { maxTokens: 4 }));
    clock.advance(5);
    await engine.step();
    const shown = () => told.splice(0).map(({ name, startMs, endMs, step }) => [name, startMs, endMs, step]);
    expect(shown()).toEqual([
      ['lookup', 5, 5, 0],
      ['queue', 0, 5, 0],
      ['schedule', 5, 5, 0],
      ['step', 5, 12, 0],
      ['collect', 12, 12, 0],
    ]);
    clock.advance(3);
    await engine.step();
    // Its queue time started at the end of its last step.
    expect(shown()).toEqual([
      ['queue', 12, 15, 1],
      ['schedule', 15, 15, 1],
      ['step', 15, 22, 1],
      ['collect', 22, 22, 1],
    ]);
    await engine.step();
    expect(shown()).toEqual([]);
    await engine.settle();
    // The last step frees blocks, which is reported.
    expect(shown().map(([name]) => name)).toEqual(['collect']);
  });

  it('reports which requests an activity is for, and the free and held blocks after a step', async () => {
    const told: EngineActivity[] = [];
    const engine = new ScriptedEngine({ numBlocks: 11 }, {}, { onActivity: (each) => told.push(each) });
    const shown = () =>
      told.splice(0).map(({ name, requestIds, blocks }) => [name, requestIds.join(), blocks ?? undefined]);
    engine.add(decodeRequest('d', tokens(40)));
    engine.add(prefillRequest('p', tokens(20, 1), null));
    await engine.step();
    // p ends with its first token and its blocks are held; d's KV is still arriving.
    expect(shown()).toEqual([
      ['lookup', 'd', undefined],
      ['lookup', 'p', undefined],
      ['queue', 'p', undefined],
      ['queue', 'd', undefined],
      ['schedule', 'p,d', undefined],
      ['step', 'p', undefined],
      ['collect', 'p', { free: 5, held: 2 }],
    ]);
    engine.receive('d');
    await engine.step();
    expect(shown().map(([name, ids]) => `${name} ${ids}`)).toEqual([
      'queue d',
      'schedule d',
      'step d',
      'collect d',
    ]);
    engine.worker.finishSending('p');
    await engine.step();
    expect(shown()).toEqual([['collect', 'd', { free: 7, held: 0 }]]);
  });

  it('reports the end of a request whose blocks all stay held', async () => {
    const told: EngineActivity[] = [];
    const engine = new ScriptedEngine({}, {}, { onActivity: (each) => told.push(each) });
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    engine.receive('d');
    await engine.settle();
    expect(engine.worker.sending.has('d')).toBe(true);
    expect(told.at(-1)).toMatchObject({ name: 'collect', requestIds: ['d'], blocks: { held: 3 } });
    const before = told.length;
    engine.add(request('r', tokens(20, 1), { maxTokens: 1 }));
    await engine.settle();
    expect(told.slice(before).findLast(({ name }) => name === 'collect')!.blocks!.held).toBe(3);
  });

  it('counts a held block once, in every group, however many requests hold it', async () => {
    const told: EngineActivity[] = [];
    const groups = [{ kind: 'sliding', window: 16 }, { kind: 'full' }] as const;
    const engine = new ScriptedEngine({ groups }, {}, { onActivity: (each) => told.push(each) });
    const blocks = () => told.findLast(({ name }) => name === 'collect')?.blocks;
    for (const [id, held] of [
      ['a', 6],
      ['b', 8],
    ] as const) {
      // The full group keeps all four blocks, the other the last two; b hits the first three blocks of the full group.
      engine.add(prefillRequest(id, tokens(60), null));
      await engine.settle();
      expect(blocks()?.held, id).toBe(held);
    }
  });

  it('says from which engine a request waits for KV, until the KV has arrived', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    expect(engine.core.inspect.waitingReason('d')).toBe("waits for KV from 'prefill-engine'");
    engine.receive('d');
    await engine.settle();
    expect(engine.core.inspect.waitingReason('d')).toBeNull();
  });

  it.each([
    ["'prefill-engine' or the store", {}],
    // A handover by the store names P, but no port or blocks of P.
    ['the store', { remote_port: STORE_PORT, remote_block_ids: [] }],
  ] as const)('says that a request waits for KV from %s if a store is configured', (from, params) => {
    const multi = { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] } as const;
    const config = { ...engineConfig(), connector: connectorWith({ name: 'MultiConnector', multi }) };
    const waiting = decodeRequest('d', tokens(40), 4, params as Partial<KvTransferParams>);
    const d = new Request(waiting, 0, { hasher: createBlockHasher('test'), blockSize: 16 });
    const queues = new RequestQueues();
    queues.known.set('d', Object.assign(d, { status: 'waiting_for_remote_kvs' }));
    const cache = {} as KvCacheManager;
    expect(waitingReason('d', { queues, cache, config }, [])).toBe(`waits for KV from ${from}`);
  });

  it('gives no waiting reason for a streamed load, since only P knows it', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40), 4, { streamed: true }));
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
    expect(engine.core.inspect.waitingReason('d')).toBeNull();
  });
});

it('load rates decay with elapsed time, and do not grow if the time is negative', () => {
  const load = { promptTokensPerSecond: 100, generationTokensPerSecond: 10, endedPerSecond: 1 };
  expect(faded(load, 0)).toEqual(load);
  expect(faded(load, -50)).toEqual(load);
  const later = faded(load, 1000);
  expect(later.promptTokensPerSecond).toBeCloseTo(100 / Math.E);
  expect(later.generationTokensPerSecond).toBeCloseTo(10 / Math.E);
  expect(later.endedPerSecond).toBeCloseTo(1 / Math.E);
});

describe('the reason why a request waits', () => {
  it('mentions the free blocks that requests admitted before it will take', async () => {
    const engine = new ScriptedEngine({ numBlocks: 11 });
    // Two blocks are loaded, four will be computed.
    engine.add(prefillRequest('p', tokens(96), tokens(32)));
    engine.add(request('r', tokens(80, 1)));
    await engine.step();
    const { inspect } = engine.core;
    expect(inspect.stats()).toMatchObject({ waiting: 1, waitingForRemote: 1, freeBlocks: 8 });
    expect(inspect.waitingReason('r')).toBe(
      'waits for 5 blocks, 8 of 10 are free: requests admitted before it will take 4',
    );
  });

  it('is the next step, the lack of a request slot, or the number of requests before it', async () => {
    const engine = new TestEngine(engineConfig({ maxNumSeqs: 1 }));
    for (const id of ['a', 'b', 'c', 'd'])
      engine.add(request(id, tokens(8, id.charCodeAt(0)), { maxTokens: 3 }));
    const { inspect } = engine.core;
    expect(inspect.waitingReason('a')).toBe('waits for the next step');
    await engine.step();
    expect(inspect.waitingReason('a')).toBeNull();
    expect(inspect.waitingReason('nobody')).toBeNull();
    expect(inspect.waitingReason('b')).toBe('waits for one of 1 request slots (max_num_seqs)');
    expect(inspect.waitingReason('c')).toBe('waits behind 1 other request');
    expect(inspect.waitingReason('d')).toBe('waits behind 2 other requests');
  });
});
