/** The offloading connector's scheduler side: what it looks up, loads and offers, and which parameters it leaves for D. */
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS, type OffloadingConfig } from '../../src/config/connectors.ts';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { StoreAnswers } from '../../src/connector/offloading/answers.ts';
import type { Lookup } from '../../src/connector/offloading/metadata.ts';
import { ReuseTracker } from '../../src/connector/offloading/reuse-tracker.ts';
import { OffloadingSchedulerSide } from '../../src/connector/offloading/scheduler-side.ts';
import type { ConnectorRequest } from '../../src/engine/kv-connector.ts';
import type { RequestStatus } from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';
import { tokens } from '../engine/fakes.ts';

const BLOCK = 16;
type Params = Partial<KvTransferParams>;

/** A request whose blocks hash to h0, h1, ... */
function requestOf(numTokens: number, params: Params | null = null, more: Partial<ConnectorRequest> = {}) {
  const whole = Array.from({ length: Math.floor(numTokens / BLOCK) }, (_, i) => `h${i}`);
  const request = {
    requestId: 'r',
    promptTokenIds: tokens(numTokens),
    allTokenIds: tokens(numTokens),
    numComputedTokens: 0,
    kvTransferParams: params as KvTransferParams | null,
    cacheSalt: null,
    status: 'running' as RequestStatus,
    blockHashes: (numBlocks = whole.length) => whole.slice(0, numBlocks),
    ...more,
  };
  const at = (numComputedTokens: number, status = request.status) => ({
    ...request,
    numComputedTokens,
    status,
  });
  return { request, at };
}

const FULL: KvCacheSpec = { kind: 'full' };

function start(
  changes: Partial<OffloadingConfig> = {},
  groups: readonly KvCacheSpec[] = [FULL, FULL],
  peersHandOver = false,
) {
  const answers = new StoreAnswers();
  const lookups: Lookup[] = [];
  const clock = new TestClock();
  const config = { ...OFFLOADING_DEFAULTS, ...changes };
  const side = new OffloadingSchedulerSide({
    ...{ config, engineId: 'p', blockSize: BLOCK, clock, answers },
    sendLookup: (lookup) => void lookups.push(lookup),
    groups,
    peersHandOver,
  });
  const metadata = () => side.buildConnectorMeta();
  /** Lookups since the last call. */
  const asked = () => lookups.splice(0);
  /** The store answers that it has the first numBlocks blocks: 100, 101, ... and 200, 201, ... */
  const finds = (leaseId: string, numBlocks: number) =>
    answers.answer(
      leaseId,
      [100, 200].map((from) => Array.from({ length: numBlocks }, (_, i) => from + i)),
    );
  return { side, clock, metadata, asked, finds };
}

/** Local blocks of a request: 10 in each of two groups. */
const TABLE = [Array.from({ length: 10 }, (_, i) => 10 + i), Array.from({ length: 10 }, (_, i) => 50 + i)];

describe('a lookup', () => {
  it('asks for the hashes of a new request, once, without waiting for a step', () => {
    const { side, asked } = start();
    expect(side.metaDueMs()).toBeNull();
    side.onNewRequest(requestOf(40).request);
    expect(asked()).toEqual([
      { requestId: 'r', leaseId: 'r/0', hashes: ['h0', 'h1'], wait: false, worthMs: null },
    ]);
    expect(asked()).toEqual([]);
    expect(side.metaDueMs()).toBeNull();
  });

  it('is not sent for less than a block, nor if nothing may be loaded', () => {
    for (const request of [requestOf(15).request, requestOf(40, { max_load_tokens: 0 }).request]) {
      const { side, asked } = start();
      side.onNewRequest(request);
      expect(asked()).toEqual([]);
      expect(side.getNumNewMatchedTokens(request, 0)).toEqual({ tokens: 0, noPull: null });
    }
  });

  it.each([
    [{ do_remote_prefill: true, remote_port: -1 }, true],
    [{ do_remote_prefill: true, remote_port: 5600 }, false],
    [{ do_remote_prefill: false, remote_port: -1 }, false],
    [null, false],
  ] as const)(
    'asks to wait for what P is still saving only at D, if P handed over through the store: %j',
    (params, wait) => {
      const { side, asked } = start();
      side.onNewRequest(requestOf(40, params).request);
      expect(asked()).toMatchObject([{ wait }]);
    },
  );
});

describe('D, with a handover from a peer', () => {
  const atD = (changes: Params = {}) =>
    requestOf(80, { do_remote_prefill: true, remote_port: 5600, remote_store_num_tokens: 32, ...changes });
  const composed = () => start({ promptOnly: false }, [FULL, FULL], true);

  it('looks up only what the store had before P began, and does not wait if it has that itself', () => {
    const { side, metadata, finds, asked } = composed();
    const { at, request } = atD();
    side.onNewRequest(request);
    expect(asked()).toMatchObject([{ leaseId: 'r/0', hashes: ['h0', 'h1'] }]);
    expect(side.getNumNewMatchedTokens(request, 16)).toBeNull();
    expect(side.getNumNewMatchedTokens(request, 32)).toEqual({ tokens: 0, noPull: null });
    side.updateStateAfterAlloc(request, TABLE, 32, 0);
    expect(metadata().released).toEqual(['r/0']);
    expect(finds('r/0', 2)).toBe(false);
    expect(side.getNumNewMatchedTokens(at(32), 32)).toEqual({ tokens: 0, noPull: null });
  });

  it('looks up nothing if the store had nothing, and everything if P does not say', () => {
    const { side, asked } = composed();
    side.onNewRequest(atD({ remote_store_num_tokens: 0 }).request);
    expect(asked()).toEqual([]);
    side.onNewRequest(atD({ remote_store_num_tokens: null }).request);
    expect(asked()).toMatchObject([{ hashes: ['h0', 'h1', 'h2', 'h3', 'h4'] }]);
  });

  it('saves only what it generates, because P saves the prompt', () => {
    const { side, metadata } = composed();
    const { at, request } = atD();
    side.onNewRequest(request);
    side.requestComputed(at(80), TABLE);
    expect(metadata().saves).toEqual([]);
    const more = { ...at(96), blockHashes: (n = 6) => ['h0', 'h1', 'h2', 'h3', 'h4', 'h5'].slice(0, n) };
    side.requestComputed(more, TABLE);
    expect(metadata().saves).toMatchObject([{ hashes: ['h5'] }]);
    const { at: atP } = requestOf(80, { do_remote_decode: true }, { requestId: 'p' });
    side.onNewRequest(atP(0));
    side.requestComputed(atP(80), TABLE);
    expect(metadata().saves).toMatchObject([{ requestId: 'p', hashes: ['h0', 'h1', 'h2', 'h3', 'h4'] }]);
  });
});

it('a lookup asks the store to wait for the offer that P named', () => {
  const { side, asked } = start();
  const named = { remote_engine_id: 'p', remote_store_offer: 7 };
  side.onNewRequest(requestOf(40, { do_remote_prefill: true, remote_port: -1, ...named }).request);
  side.onNewRequest(requestOf(40, { do_remote_prefill: true, remote_port: 5600, ...named }).request);
  const [after, none] = asked();
  expect(after).toMatchObject({ wait: true, after: { engineId: 'p', offer: 7 } });
  expect(none).not.toHaveProperty('after');
});

describe('a load', () => {
  it('is unknown until the store answers, then covers what it has beyond the local hit', () => {
    const { side, finds } = start();
    const { request } = requestOf(100);
    side.onNewRequest(request);
    expect(side.storedTokens('r')).toBeNull();
    expect(side.getNumNewMatchedTokens(request, 0)).toBeNull();
    finds('r/0', 4);
    expect(side.getNumNewMatchedTokens(request, 16)).toEqual({ tokens: 48, noPull: null });
    expect(side.storedTokens('r')).toBe(64);
    expect(side.storedTokens('unknown')).toBeNull();
    const covered = { by: 'offer', reason: 'the local hit of 64 covers what the store has' };
    expect(side.getNumNewMatchedTokens(request, 64)).toEqual({ tokens: 0, noPull: covered });
    expect(side.getNumNewMatchedTokens(request, 80)).toMatchObject({ tokens: 0, noPull: { by: 'offer' } });
  });

  it('is empty, without a reason, if the store has nothing or the request is unknown', () => {
    const { side, finds } = start();
    const { request } = requestOf(100);
    expect(side.getNumNewMatchedTokens(request, 0)).toEqual({ tokens: 0, noPull: null });
    side.onNewRequest(request);
    finds('r/0', 0);
    expect(side.getNumNewMatchedTokens(request, 0)).toEqual({ tokens: 0, noPull: null });
  });

  it.each([
    ['whole chunks', { blocksPerChunk: 3 }, {}, 48],
    ['no more than the request allows', {}, { max_load_tokens: 40 }, 32],
    ['as little as the minimum', { minLoadTokens: 64 }, {}, 64],
    ['nothing below the minimum', { minLoadTokens: 65 }, {}, 0],
  ])('takes %s', (_, config, params, expected) => {
    const { side, finds } = start(config);
    const { request } = requestOf(100, params);
    side.onNewRequest(request);
    finds('r/0', 4);
    const match = side.getNumNewMatchedTokens(request, 0);
    expect(match?.tokens).toBe(expected);
    expect(match?.noPull).toEqual(
      expected > 0 ? null : { by: 'policy', reason: '64 < 65 tokens, the minimum to load' },
    );
    // If the local hit covers everything, the reason is not the minimum.
    expect(side.getNumNewMatchedTokens(request, 64)?.noPull?.by).toBe('offer');
  });

  it('goes into the blocks after the local hit, in every group, and uses up the lease', () => {
    const { side, metadata, finds } = start();
    const { request } = requestOf(100);
    side.onNewRequest(request);
    metadata();
    finds('r/0', 4);
    side.updateStateAfterAlloc(request, TABLE, 16, 32);
    const { loads, released } = metadata();
    expect(released).toEqual([]);
    expect(loads.get('r')).toEqual({
      leaseId: 'r/0',
      pairs: [
        { group: 0, remote: 101, local: 11 },
        { group: 0, remote: 102, local: 12 },
        { group: 1, remote: 201, local: 51 },
        { group: 1, remote: 202, local: 52 },
      ],
      numTokens: 32,
      twice: [],
    });
    side.updateStateAfterAlloc(request, TABLE, 16, 32);
    expect(metadata().loads.size).toBe(0);
  });

  it('does not happen if the tokens are computed instead, and the lease is released', () => {
    const { side, metadata, finds } = start();
    const { request } = requestOf(100);
    side.updateStateAfterAlloc(request, TABLE, 0, 16);
    expect(metadata()).toMatchObject({ loads: new Map(), released: [] });
    side.onNewRequest(request);
    finds('r/0', 4);
    side.updateStateAfterAlloc(request, TABLE, 64, 0);
    expect(metadata()).toMatchObject({ loads: new Map(), released: ['r/0'] });
  });

  it.each([
    // Of blocks 1 and 2, only those count that P saved in this turn.
    [{ do_remote_prefill: true, remote_store_num_tokens: 0 }, 2],
    [{ do_remote_prefill: true, remote_store_num_tokens: 32 }, 1],
    [{ do_remote_prefill: true, remote_store_num_tokens: 64 }, 0],
    [{ do_remote_prefill: true }, 0],
    [{ do_remote_prefill: false, remote_store_num_tokens: 0 }, 0],
    [null, 0],
  ])('names the blocks that travel twice: %j', (params, twice) => {
    const { side, metadata, finds } = start();
    const { request } = requestOf(100, params);
    side.onNewRequest(request);
    finds('r/0', 4);
    side.updateStateAfterAlloc(request, TABLE, 16, 32);
    const pairs = [101, 102, 201, 202].filter((id) => id % 100 > 2 - twice);
    expect(
      metadata()
        .loads.get('r')!
        .twice.map(({ remote }) => remote),
    ).toEqual(pairs);
  });
});

describe('windowed groups', () => {
  /** The second group sees 40 tokens: three blocks. */
  const groups: KvCacheSpec[] = [{ kind: 'full' }, { kind: 'sliding', window: 40 }];
  const full = { groups: [0] };

  it('are looked up with their windows and the chunk size, as far as may be loaded', () => {
    const { side, asked } = start({ blocksPerChunk: 2 }, groups);
    side.onNewRequest(requestOf(100, { max_load_tokens: 50 }).request);
    expect(asked()).toMatchObject([
      {
        hashes: ['h0', 'h1', 'h2'],
        groups: [{ kind: 'full' }, { kind: 'sliding', window: 41 }],
        chunk: 2,
      },
    ]);
  });

  it('do not load blocks that no token sees', () => {
    const { side, metadata, finds } = start({}, groups);
    const { request } = requestOf(100);
    side.onNewRequest(request);
    finds('r/0', 4);
    side.updateStateAfterAlloc(request, [TABLE[0]!, [0, 0, ...TABLE[1]!.slice(2)]], 16, 48);
    const { pairs } = metadata().loads.get('r')!;
    expect(pairs.map(({ group, local }) => [group, local])).toEqual([
      [0, 11],
      [0, 12],
      [0, 13],
      [1, 52],
      [1, 53],
    ]);
  });

  it("offer the prompt's last window separately, once its last block is computed", () => {
    const { side, metadata, finds } = start({}, groups);
    const { request, at } = requestOf(100);
    side.onNewRequest(request);
    finds('r/0', 0);
    side.updateStateAfterAlloc(request, TABLE, 0, 0);
    side.requestComputed(at(95), TABLE);
    expect(metadata().saves).toMatchObject([{ hashes: ['h0', 'h1', 'h2', 'h3', 'h4'], ...full }]);
    side.requestComputed(at(96), TABLE);
    expect(metadata().saves).toEqual([
      { requestId: 'r', number: 2, hashes: ['h5'], parent: 'h4', blockIds: [[15], [55]], ...full },
      {
        ...{ requestId: 'r', number: 3, hashes: ['h3', 'h4', 'h5'], groups: [1], window: true },
        parent: 'h2',
        blockIds: [
          [13, 14, 15],
          [53, 54, 55],
        ],
      },
    ]);
    side.requestComputed(at(100), TABLE);
    expect(metadata().saves).toEqual([]);
  });

  it('withdraw a window as soon as the sequence has passed it, unless the request ends first', () => {
    for (const ends of [true, false]) {
      const { side, clock, metadata, finds } = start({}, groups);
      const prompt = requestOf(100);
      // The same object throughout, because its token count grows.
      const request = { ...prompt.request };
      side.onNewRequest(request);
      finds('r/0', 0);
      side.updateStateAfterAlloc(request, TABLE, 0, 0);
      metadata();
      request.numComputedTokens = 100;
      side.requestComputed(request, TABLE);
      metadata();
      expect(side.metaDueMs()).toBeNull();
      // Token 103 sees from 64 on, so no further token sees block 3.
      const passed = ends ? 102 : 103;
      request.numComputedTokens = passed;
      expect(side.metaDueMs()).toBe(ends ? null : clock.now());
      if (ends) side.requestFinished({ ...request, status: 'finished_stopped' }, TABLE);
      const { passed: told } = metadata();
      expect([...told]).toEqual(ends ? [] : ['r']);
      request.numComputedTokens = 140;
      expect(side.metaDueMs()).toBeNull();
    }
  });

  it('of equal size are offered together, each only with all of its blocks, and withdrawn when one is passed', () => {
    const sizes: KvCacheSpec[] = [
      ...groups,
      { kind: 'sliding', window: 40 },
      { kind: 'sliding', window: 20 },
    ];
    const table = sizes.map((_, group) => Array.from({ length: 7 }, (_, i) => 100 * group + i + 1));
    const offers = (blockIds: number[][]) => {
      const { side, metadata } = start({}, sizes);
      const request = { ...requestOf(100).request, numComputedTokens: 98 };
      side.onNewRequest(request);
      side.requestComputed(request, blockIds);
      return {
        side,
        metadata,
        request,
        saves: metadata().saves.map((save) => [save.groups, save.hashes[0]]),
      };
    };
    const { side, metadata, request, saves } = offers(table);
    expect(saves).toEqual([
      [[0], 'h0'],
      [[1, 2], 'h3'],
      [[3], 'h4'],
    ]);
    expect(side.metaDueMs()).toBeNull();
    // Token 99 sees 80 to 99 in the last group, and from 60 on in the others.
    request.numComputedTokens = 99;
    expect([...metadata().passed]).toEqual(['r']);
    const without = (group: number, block: number) =>
      table.map((ids, of) => ids.map((id, i) => (of === group && i <= block ? 0 : id)));
    expect(offers(without(2, 3)).saves).toEqual([
      [[0], 'h0'],
      [[3], 'h4'],
    ]);
    const ended = offers(table);
    ended.side.requestFinished({ ...ended.request, status: 'finished_stopped' }, without(3, 4));
    expect([...ended.metadata().passed]).toEqual(['r']);
  });

  it('keep the blocks of an ended request until they are saved, also if no group is full', () => {
    const { side, metadata } = start({}, [groups[1]!, groups[1]!]);
    const { request, at } = requestOf(96);
    side.onNewRequest(request);
    side.requestComputed(at(96), TABLE);
    expect(metadata().saves).toMatchObject([{ hashes: ['h3', 'h4', 'h5'], groups: [0, 1], window: true }]);
    expect(side.requestFinished(at(96, 'finished_stopped'), TABLE).delayFree).toBe(true);
  });

  it('are not offered again where the store had them, nor before all were looked up often enough', () => {
    const { side, metadata, finds } = start({}, groups);
    const { request, at } = requestOf(100);
    side.onNewRequest(request);
    finds('r/0', 6);
    side.updateStateAfterAlloc(request, TABLE, 0, 96);
    side.requestComputed(at(100), TABLE);
    expect(metadata().saves).toEqual([]);
    const often = start({ storeThreshold: 2 }, groups);
    const offered = ['a', 'b', 'c'].map((requestId, turn) => {
      const prompt = requestOf(turn === 0 ? 64 : 96, null, { requestId });
      often.side.onNewRequest(prompt.request);
      often.side.requestComputed(prompt.at(96), TABLE);
      return often.metadata().saves.map(({ hashes, window }) => [hashes.length, window === true]);
    });
    expect(offered).toEqual([
      [],
      [[4, false]],
      [
        [6, false],
        [3, true],
      ],
    ]);
  });

  it('do not withdraw the offers of full groups that are due at the same time', () => {
    const { side, metadata, finds } = start({}, groups);
    const request = { ...requestOf(100).request };
    side.onNewRequest(request);
    finds('r/0', 0);
    side.updateStateAfterAlloc(request, TABLE, 0, 0);
    request.numComputedTokens = 100;
    side.requestComputed(request, TABLE);
    request.numComputedTokens = 103;
    const { passed, saves } = metadata();
    expect([...passed]).toEqual(['r']);
    expect(saves).toMatchObject([{ hashes: ['h0', 'h1', 'h2', 'h3', 'h4', 'h5'], ...full }]);
  });

  it('withdraw blocks that were freed when the request ended, and offer the window at its end', () => {
    const { side, metadata, finds } = start({ promptOnly: false }, groups);
    const { request, at } = requestOf(100, null, { allTokenIds: tokens(150) });
    side.onNewRequest(request);
    finds('r/0', 0);
    side.updateStateAfterAlloc(request, TABLE, 0, 0);
    side.requestComputed(at(100), TABLE);
    metadata();
    const hashes = Array.from({ length: 9 }, (_, i) => `h${i}`);
    const end = { ...at(149, 'finished_stopped'), blockHashes: (count = 9) => hashes.slice(0, count) };
    side.requestFinished(end, [TABLE[0]!, [0, 0, 0, 0, 0, ...TABLE[1]!.slice(5)]]);
    const { passed, saves } = metadata();
    expect([...passed]).toEqual(['r']);
    expect(saves).toMatchObject([{ hashes: ['h6', 'h7', 'h8'], groups: [1], window: true }]);
  });
});

describe('an offer', () => {
  it('contains each whole block once, as it is computed, unless the store has it', () => {
    const { side, metadata, finds } = start();
    const { request, at } = requestOf(100);
    side.onNewRequest(request);
    finds('r/0', 2);
    side.updateStateAfterAlloc(request, TABLE, 0, 32);
    side.requestComputed(at(20), TABLE);
    expect(metadata().saves).toEqual([]);
    side.requestComputed(at(64), TABLE);
    expect(metadata().saves).toEqual([
      {
        ...{ requestId: 'r', number: 1 },
        hashes: ['h2', 'h3'],
        parent: 'h1',
        blockIds: [
          [12, 13],
          [52, 53],
        ],
      },
    ]);
    side.requestComputed(at(79), TABLE);
    expect(metadata().saves).toEqual([]);
    side.requestComputed(at(100), TABLE);
    expect(metadata().saves).toMatchObject([{ hashes: ['h4', 'h5'] }]);
    side.requestComputed({ ...at(100), requestId: 'unknown' }, TABLE);
    expect(metadata().saves).toEqual([]);
  });

  it.each([
    [{}, {}, ['h0', 'h1']],
    [{ promptOnly: false }, {}, ['h0', 'h1', 'h2', 'h3']],
    [{ promptOnly: false }, { max_offload_tokens: 20 }, ['h0']],
    [{}, { max_offload_tokens: 64 }, ['h0', 'h1']],
  ])('covers the prompt or all tokens, as far as the request allows: %j %j', (config, params, hashes) => {
    const { side, metadata } = start(config);
    const { at } = requestOf(64, params, { promptTokenIds: tokens(40) });
    side.onNewRequest(at(0));
    side.requestComputed(at(64), TABLE);
    expect(metadata().saves).toMatchObject([{ hashes }]);
  });

  it('contains the first blocks that were looked up as often as the threshold requires', () => {
    const { side, metadata } = start({ storeThreshold: 2 });
    const short = requestOf(32, null, { requestId: 'a' });
    const long = requestOf(64, null, { requestId: 'b' });
    side.onNewRequest(short.request);
    side.requestComputed(short.at(32), TABLE);
    expect(metadata().saves).toEqual([]);
    side.onNewRequest(long.request);
    side.requestComputed(long.at(64), TABLE);
    expect(metadata().saves).toMatchObject([
      {
        requestId: 'b',
        hashes: ['h0', 'h1'],
        blockIds: [
          [10, 11],
          [50, 51],
        ],
      },
    ]);
    const once = start({ storeThreshold: 1 });
    once.side.onNewRequest(short.request);
    once.side.requestComputed(short.at(32), TABLE);
    expect(once.metadata().saves).toHaveLength(1);
  });

  it.each(['finished_stopped', 'finished_length_capped'] as const)(
    "is made once the request has ended well, with saves 'whole': %s",
    (status) => {
      const { side, metadata } = start({ saves: 'whole' });
      const { at } = requestOf(64);
      side.onNewRequest(at(0));
      side.requestComputed(at(64), TABLE);
      expect(metadata().saves).toEqual([]);
      side.requestFinished(at(64, status), TABLE);
      expect(metadata().saves).toMatchObject([{ hashes: ['h0', 'h1', 'h2', 'h3'] }]);
      side.onNewRequest(at(0));
      side.requestFinished(at(64, 'finished_aborted'), TABLE);
      expect(metadata().saves).toEqual([]);
    },
  );

  it('is revoked by a preemption and made again, after a new lookup unless a load has failed', () => {
    const { side, clock, metadata, asked } = start();
    const { at } = requestOf(64);
    const other = requestOf(64, null, { requestId: 'other' });
    side.onNewRequest(at(0));
    side.onNewRequest(other.at(0));
    side.requestComputed(other.at(16), TABLE);
    side.requestComputed(at(32), TABLE);
    side.requestPreempted(at(0));
    side.requestPreempted({ ...at(0), requestId: 'unknown' });
    const { revoked, saves } = metadata();
    expect([...revoked]).toEqual(['r']);
    expect(saves.map(({ requestId }) => requestId)).toEqual(['other']);
    expect(asked().map(({ leaseId }) => leaseId)).toEqual(['r/0', 'other/0', 'r/1']);
    side.requestComputed(at(32), TABLE);
    expect(metadata().saves).toMatchObject([{ hashes: ['h0', 'h1'] }]);

    const failed = { requestId: 'r', outcome: 'declined' as const, message: '', invalidBlockIds: [[]] };
    const unknown = { ...failed, requestId: 'unknown' };
    const output = { finishedSending: [], finishedRecving: ['r'], changed: false };
    side.updateConnectorOutput({ ...output, failedRecving: [unknown, failed] });
    side.requestComputed(at(32), TABLE);
    expect(metadata().saves).toMatchObject([{ hashes: ['h0', 'h1'] }]);
    side.requestPreempted(at(0));
    expect(side.metaDueMs()).toBe(clock.now());
    expect(metadata()).toMatchObject({ revoked: new Set(['r']) });
    expect(asked()).toEqual([]);
  });
});

describe('a request that ends', () => {
  it('keeps its blocks until its offers are saved, and counts them over all groups', () => {
    const { side, metadata } = start();
    const { at } = requestOf(64);
    side.onNewRequest(at(0));
    side.requestComputed(at(64), TABLE);
    expect(side.requestFinished(at(64, 'finished_stopped'), TABLE)).toMatchObject({ delayFree: true });
    expect(metadata().finished).toEqual(new Map([['r', 20]]));
  });

  it('does not count blocks that its windows freed before', () => {
    const { side, metadata } = start({}, [FULL, { kind: 'sliding', window: 40 }]);
    const { at } = requestOf(64);
    const table = [TABLE[0]!, [0, 0, 0, ...TABLE[1]!.slice(3)]];
    side.onNewRequest(at(0));
    side.requestComputed(at(64), table);
    side.requestFinished(at(64, 'finished_stopped'), table);
    expect(metadata().finished).toEqual(new Map([['r', 17]]));
  });

  it('keeps no blocks if nothing was offered, and releases the lease of its lookup', () => {
    const { side, metadata } = start();
    const { at } = requestOf(64);
    side.onNewRequest(at(0));
    const left = side.requestFinished(at(0, 'finished_stopped'), TABLE);
    expect(left).toEqual({ delayFree: false, kvTransferParams: null });
    expect(metadata()).toMatchObject({ released: ['r/0'], finished: new Map(), revoked: new Set() });
    expect(side.requestFinished(at(0, 'finished_stopped'), TABLE)).toEqual(left);
    expect(metadata()).toMatchObject({ released: [] });
  });

  it('while it loads from elsewhere keeps and offers nothing, because it has no blocks yet', () => {
    const { side, metadata, finds } = start({ saves: 'whole' });
    const { at } = requestOf(64);
    side.onNewRequest(at(0));
    finds('r/0', 0);
    side.updateStateAfterAlloc(at(0), TABLE, 0, 0);
    metadata();
    expect(side.requestFinished(at(48, 'finished_stopped'), [])).toMatchObject({ delayFree: false });
    expect(metadata()).toMatchObject({ saves: [], finished: new Map() });
  });

  it('after a preemption, before it has blocks again, keeps nothing, and its offers are revoked', () => {
    const { side, metadata } = start();
    const { at } = requestOf(64);
    side.onNewRequest(at(0));
    side.requestComputed(at(64), TABLE);
    side.requestPreempted(at(0));
    expect(side.requestFinished(at(0, 'finished_stopped'), [[], []])).toMatchObject({ delayFree: false });
    expect(metadata()).toMatchObject({ saves: [], finished: new Map(), revoked: new Set(['r']) });
  });

  it('after a preemption waits only for offers made since then', () => {
    const { side, metadata, finds } = start();
    const { at } = requestOf(64);
    side.onNewRequest(at(0));
    side.requestComputed(at(64), TABLE);
    side.requestPreempted(at(0));
    // The store had taken everything by then.
    finds('r/1', 4);
    side.updateStateAfterAlloc(at(0), TABLE, 0, 48);
    expect(side.requestFinished(at(64, 'finished_stopped'), TABLE)).toMatchObject({ delayFree: false });
    expect(metadata().finished).toEqual(new Map());
  });

  it('by an abort revokes its offers, keeps no blocks and leaves no parameters', () => {
    const { side, metadata } = start();
    const { at } = requestOf(64, { do_remote_decode: true });
    side.onNewRequest(at(0));
    side.requestComputed(at(64), TABLE);
    const left = side.requestFinished(at(64, 'finished_aborted'), TABLE);
    expect(left).toEqual({ delayFree: false, kvTransferParams: null });
    expect(metadata()).toMatchObject({ revoked: new Set(['r']), saves: [], finished: new Map() });
  });

  it('leaves parameters that send D to the store, with the tokens that the store had before', () => {
    const { side, finds } = start();
    const { at } = requestOf(64, { do_remote_decode: true });
    side.onNewRequest(at(0));
    finds('r/0', 2);
    side.getNumNewMatchedTokens(at(0), 0);
    const { kvTransferParams } = side.requestFinished(at(64, 'finished_length_capped'), TABLE);
    expect(kvTransferParams).toMatchObject({
      ...{ do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [], remote_port: -1 },
      ...{ remote_engine_id: 'p', remote_request_id: 'r', remote_store_num_tokens: 32 },
    });
    side.onNewRequest(at(0));
    const unasked = side.requestFinished(at(64, 'finished_stopped'), TABLE);
    expect(unasked.kvTransferParams).toMatchObject({ remote_store_num_tokens: 0 });
  });

  it('names the offer that the store must have received: its own last one, or the last one sent', () => {
    const { side, metadata } = start();
    const one = requestOf(64, { do_remote_decode: true });
    const other = requestOf(64, null, { requestId: 'other' });
    side.onNewRequest(one.request);
    side.onNewRequest(other.request);
    side.requestComputed(one.at(32), TABLE);
    side.requestComputed(one.at(64), TABLE);
    side.requestComputed(other.at(32), TABLE);
    const { kvTransferParams: pending } = side.requestFinished(one.at(64, 'finished_stopped'), TABLE);
    expect(pending!.remote_store_offer).toBe(2);
    expect(metadata().saves.map(({ number }) => number)).toEqual([1, 2, 3]);
    side.onNewRequest(one.request);
    side.requestComputed(other.at(64), TABLE);
    const { kvTransferParams } = side.requestFinished(one.at(32, 'finished_stopped'), TABLE);
    expect(kvTransferParams!.remote_store_offer).toBe(3);
  });

  it.each([
    [{ handsOver: false }, { do_remote_decode: true }],
    [{}, { do_remote_decode: false }],
    [{}, null],
  ])('leaves no parameters if P does not hand over through the store: %j %j', (config, params) => {
    const { side } = start(config);
    const { at } = requestOf(64, params);
    side.onNewRequest(at(0));
    expect(side.requestFinished(at(64, 'finished_stopped'), TABLE).kvTransferParams).toBeNull();
  });
});

it('ReuseTracker counts lookups of the last n different blocks', () => {
  const tracker = new ReuseTracker(2);
  for (const hash of ['a', 'b', 'a']) tracker.record(hash);
  expect([tracker.count('a'), tracker.count('b'), tracker.count('c')]).toEqual([2, 1, 0]);
  tracker.record('c');
  expect([tracker.count('a'), tracker.count('b'), tracker.count('c')]).toEqual([2, 0, 1]);
});
