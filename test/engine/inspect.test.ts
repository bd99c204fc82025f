/** What an engine shows of itself: what its blocks hold, what its steps take; and that its books are seen when they are wrong. */
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

describe('books that do not add up', () => {
  const hashing = { hasher: createBlockHasher('test'), blockSize: 16 };

  /** Requests in the queues that their names say, with tables by id; all is well when nothing is changed. */
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

  it('are not found where all is well', () => {
    expect(() => check(books())).not.toThrow();
  });

  it.each<[string, (made: ReturnType<typeof books>) => void, string]>([
    ['in two queues', ({ queues }) => queues.running.push(queues.running[0]!), 'running is in two queues'],
    ['unknown', ({ queues }) => queues.known.delete('loaded'), 'loaded is loaded and unknown'],
    ['in no queue', ({ queues }) => queues.running.pop(), '6 requests are known, 5 are in a queue'],
    [
      'waiting, and runs',
      ({ queues }) => Object.assign(queues.waiting[0]!, { status: 'running' }),
      'waiting is waiting with status running',
    ],
    [
      'running, and waits',
      ({ queues }) => Object.assign(queues.running[0]!, { status: 'waiting' }),
      'running is running with status waiting',
    ],
    [
      'loaded, and loads',
      ({ queues }) => Object.assign(queues.loaded[0]!, { status: 'waiting_for_remote_kvs' }),
      'loaded is loaded with status',
    ],
    [
      'loading, and waits',
      ({ queues }) => Object.assign([...queues.loading][0]!, { status: 'waiting' }),
      'loading is loading with status',
    ],
    [
      'held, and runs',
      ({ queues }) => Object.assign(queues.known.get('held')!, { status: 'running' }),
      'held is held with status running',
    ],
    [
      'without enough blocks',
      ({ queues }) => Object.assign(queues.running[0]!, { numComputedTokens: 33 }),
      'running has 2 blocks for 33 tokens',
    ],
  ])('a request that is %s', (_, spoil, told) => {
    const made = books();
    spoil(made);
    expect(() => check(made)).toThrow(told);
  });

  it('blocks of whom waits, of nobody, or none of whom runs', () => {
    expect(() => check(books({ blocks: { waiting: [9] } }))).toThrow('waiting is waiting and has blocks');
    expect(() => check(books({ owners: ['nobody'] }))).toThrow('nobody has blocks and is in no queue');
    const made = books();
    made.cache.hasBlocks = ({ requestId }) => requestId === 'held';
    expect(() => check(made)).toThrow('and has no blocks');
  });

  it('a window that is not there', () => {
    expect(() => check(books({ sees: false }))).toThrow('does not have what a window sees');
  });

  it('holds of the worker side alone, or of blocks that are not in the table', () => {
    const { queues, cache } = books();
    const holds = (requestId: string, ids: number[]) => () =>
      checkHolds([{ requestId, blockIds: [ids] }], { queues, cache });
    expect(holds('held', [8, 7])).not.toThrow();
    expect(holds('held', [7, 9])).toThrow('held holds block 9, which is not in its table');
    expect(holds('running', [5])).toThrow('running is held by the worker side alone');
    expect(holds('nobody', [])).toThrow('nobody is held by the worker side alone');
  });
});

describe('a block', () => {
  it('tells whose it is, how its content came, and how much of it there is', async () => {
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
    // A hit keeps telling how its content came here.
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

it('a block into which a load still writes is held for nobody when its request has ended', async () => {
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
  'of a load that came in part only that is in blocks: %s',
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

it('blocks of an engine with groups name theirs, and those of a load that follows a hit', async () => {
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

describe('what a step takes', () => {
  it('is told of those that begin, load or prefill; a step that only decodes tells nothing', async () => {
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
    // It waited from the end of its last step on.
    expect(shown()).toEqual([
      ['queue', 12, 15, 1],
      ['schedule', 15, 15, 1],
      ['step', 15, 22, 1],
      ['collect', 22, 22, 1],
    ]);
    await engine.step();
    expect(shown()).toEqual([]);
    await engine.settle();
    // The blocks that the end gives back are news.
    expect(shown().map(([name]) => name)).toEqual(['collect']);
  });

  it('is told of whom, with what is free and held after it', async () => {
    const told: EngineActivity[] = [];
    const engine = new ScriptedEngine({ numBlocks: 11 }, {}, { onActivity: (each) => told.push(each) });
    const shown = () =>
      told.splice(0).map(({ name, requestIds, blocks }) => [name, requestIds.join(), blocks ?? undefined]);
    engine.add(decodeRequest('d', tokens(40)));
    engine.add(prefillRequest('p', tokens(20, 1), null));
    await engine.step();
    // p ends with its first token and is held; d's KV is on its way.
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

  it('tells of a request that ends and keeps all that it had', async () => {
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

  it('counts as held what is kept of every group, once, however many keep it', async () => {
    const told: EngineActivity[] = [];
    const groups = [{ kind: 'sliding', window: 16 }, { kind: 'full' }] as const;
    const engine = new ScriptedEngine({ groups }, {}, { onActivity: (each) => told.push(each) });
    const blocks = () => told.findLast(({ name }) => name === 'collect')?.blocks;
    for (const [id, held] of [
      ['a', 6],
      ['b', 8],
    ] as const) {
      // Of four blocks all in the one group, the last two in the other; the first three are b's by a hit.
      engine.add(prefillRequest(id, tokens(60), null));
      await engine.settle();
      expect(blocks()?.held, id).toBe(held);
    }
  });

  it('names who waits for KV, until it came', async () => {
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
    // P's hand-over by the store names P, and nothing of its own.
    ['the store', { remote_port: STORE_PORT, remote_block_ids: [] }],
  ] as const)('names beside a store %s', (from, params) => {
    const multi = { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] } as const;
    const config = { ...engineConfig(), connector: connectorWith({ name: 'MultiConnector', multi }) };
    const waiting = decodeRequest('d', tokens(40), 4, params as Partial<KvTransferParams>);
    const d = new Request(waiting, 0, { hasher: createBlockHasher('test'), blockSize: 16 });
    const queues = new RequestQueues();
    queues.known.set('d', Object.assign(d, { status: 'waiting_for_remote_kvs' }));
    const cache = {} as KvCacheManager;
    expect(waitingReason('d', { queues, cache, config }, [])).toBe(`waits for KV from ${from}`);
  });

  it('does not say of a streamed load what only P knows', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40), 4, { streamed: true }));
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
    expect(engine.core.inspect.waitingReason('d')).toBeNull();
  });
});

it('a rate fades as time passes, and not backwards', () => {
  const load = { promptTokensPerSecond: 100, generationTokensPerSecond: 10, endedPerSecond: 1 };
  expect(faded(load, 0)).toEqual(load);
  expect(faded(load, -50)).toEqual(load);
  const later = faded(load, 1000);
  expect(later.promptTokensPerSecond).toBeCloseTo(100 / Math.E);
  expect(later.generationTokensPerSecond).toBeCloseTo(10 / Math.E);
  expect(later.endedPerSecond).toBeCloseTo(1 / Math.E);
});

describe('why a request waits', () => {
  it('is told where free blocks are for those that came before', async () => {
    const engine = new ScriptedEngine({ numBlocks: 11 });
    // Two blocks come, four are to be computed.
    engine.add(prefillRequest('p', tokens(96), tokens(32)));
    engine.add(request('r', tokens(80, 1)));
    await engine.step();
    const { inspect } = engine.core;
    expect(inspect.stats()).toMatchObject({ waiting: 1, waitingForRemote: 1, freeBlocks: 8 });
    expect(inspect.waitingReason('r')).toBe(
      'waits for 5 blocks, 8 of 10 are free: requests admitted before it will take 4',
    );
  });

  it('is told for those behind others, and for a place', async () => {
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
