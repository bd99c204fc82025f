/** Scheduler side of a MultiConnector over fake connectors: which of them it asks, and which it tells. */
import { describe, expect, it } from 'vitest';
import type { Composition } from '../../src/config/kv-connectors.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { MultiSchedulerSide } from '../../src/connector/multi/scheduler-side.ts';
import { SecondHops } from '../../src/connector/multi/second-hops.ts';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import type { PullQuestion } from '../../src/connector/policy/pull-policy.ts';
import { SourceCosts } from '../../src/connector/policy/source-costs.ts';
import { InternalError } from '../../src/errors.ts';
import { FakeConnector, requestOf } from './fake-connector.ts';

/** A peer and a store. `stored` sets how many of the request's tokens the store had at the lookup. */
function start(composition: Composition, { withStore = true, costs = null as SourceCosts | null } = {}) {
  const peer = new FakeConnector('peer', { streams: true, refused: true });
  const store = new FakeConnector('store');
  let storedTokens: number | null = null;
  const secondHops = new SecondHops({ blockSize: 16, blockBytes: [10], storedTokens: () => storedTokens });
  const side = new MultiSchedulerSide({
    children: [peer, store],
    store: withStore ? 1 : null,
    ...{ composition, secondHops, costs },
  });
  const stored = (count: number) => {
    storedTokens = count;
  };
  /** Returns the tokens to load, and what each connector is told to load after the allocation. */
  const load = (from: number, params: Partial<KvTransferParams> | null = null, allocated?: number) => {
    const request = requestOf(params);
    const match = side.getNumNewMatchedTokens(request, from);
    if (!match) return null;
    for (const each of [peer, store]) each.calls.length = 0;
    side.updateStateAfterAlloc(request, [[]], from, allocated ?? match.tokens);
    return { ...match, peer: peer.calls[0], store: store.calls[0] };
  };
  return { peer, store, side, secondHops, stored, load };
}

const none = (from: number) => `loads 0 from ${from}`;

describe('loading from one connector', () => {
  it.each([
    ['first-hit', 40, 90, { tokens: 24, peer: 'loads 24 from 16', store: none(16) }],
    ['first-hit', 16, 90, { tokens: 74, peer: none(16), store: 'loads 74 from 16' }],
    ['max-hit', 40, 90, { tokens: 74, peer: none(16), store: 'loads 74 from 16' }],
    ['max-hit', 90, 40, { tokens: 74, peer: 'loads 74 from 16', store: none(16) }],
    ['max-hit', 10, 16, { tokens: 0, peer: none(16), store: none(16) }],
    ['first-hit', 10, 16, { tokens: 0, peer: none(16), store: none(16) }],
  ] as const)('is what %s does with %i at peer, %i in store', (composition, atPeer, atStore, expected) => {
    const { peer, store, load } = start(composition);
    [peer.upTo, store.upTo] = [atPeer, atStore];
    expect(load(16)).toEqual({ ...expected, noPull: null });
  });

  it("is what 'compose' does without a store", () => {
    const { peer, store, load } = start('compose', { withStore: false });
    [peer.upTo, store.upTo] = [32, 90];
    expect(load(0)).toMatchObject({ tokens: 32, peer: 'loads 32 from 0', store: none(0) });
  });

  it('waits while one does not know, and passes on why one loads nothing', () => {
    const { peer, store, load } = start('first-hit');
    [peer.upTo, store.upTo] = [64, null];
    expect(load(0)).toBeNull();
    [peer.upTo, store.upTo] = [0, { noPull: 'too short' }];
    expect(load(0)).toMatchObject({ tokens: 0, noPull: { reason: 'too short' } });
    peer.upTo = 64;
    expect(load(0)).toMatchObject({ tokens: 64, noPull: null });
    const most = start('max-hit');
    most.store.upTo = { noPull: 'too short' };
    expect(most.load(0)).toMatchObject({ tokens: 0, noPull: { reason: 'too short' } });
  });
});

describe('compose', () => {
  it.each([
    ['the store, then the peer', 32, 90, { tokens: 90, store: 'loads 32 from 0', peer: 'loads 58 from 32' }],
    ['the peer alone', 0, 90, { tokens: 90, store: none(0), peer: 'loads 90 from 0' }],
    ['the store alone', 48, 20, { tokens: 48, store: 'loads 48 from 0', peer: none(0) }],
    ['neither', 0, 0, { tokens: 0, store: none(0), peer: none(0) }],
  ])('loads from %s', (_, atStore, atPeer, expected) => {
    const { peer, store, load } = start('compose');
    [peer.upTo, store.upTo] = [atPeer, atStore];
    expect(load(0)).toEqual({ ...expected, noPull: null });
  });

  it('takes from the store, at D, only what it had before this turn, unless the peer has nothing', () => {
    const handedOver = { do_remote_prefill: true, remote_store_num_tokens: 32 };
    const { peer, store, load } = start('compose');
    [peer.upTo, store.upTo] = [96, 64];
    expect(load(16, handedOver)).toMatchObject({ store: 'loads 16 from 16', peer: 'loads 64 from 32' });
    expect(load(48, handedOver)).toMatchObject({ store: none(48), peer: 'loads 48 from 48' });
    expect(load(0, { ...handedOver, do_remote_prefill: false })).toMatchObject({ store: 'loads 64 from 0' });
    expect(load(0, { do_remote_prefill: true })).toMatchObject({ store: 'loads 64 from 0' });
    peer.upTo = 0;
    expect(load(16, handedOver)).toMatchObject({ store: 'loads 48 from 16', peer: none(16) });
  });

  it("waits while either does not know, and gives the store's reason for not loading before the peer's", () => {
    const { peer, store, load } = start('compose');
    [peer.upTo, store.upTo] = [90, null];
    expect(load(0)).toBeNull();
    [peer.upTo, store.upTo] = [null, 32];
    expect(load(0)).toBeNull();
    [peer.upTo, store.upTo] = [{ noPull: 'of the peer' }, 0];
    expect(load(0)?.noPull?.reason).toBe('of the peer');
    store.upTo = { noPull: 'of the store' };
    expect(load(0)?.noPull?.reason).toBe('of the store');
  });

  it('loads nothing for which no blocks were allocated, and nothing twice', () => {
    const { peer, store, side, load } = start('compose');
    [peer.upTo, store.upTo] = [90, 32];
    expect(load(0, null, 0)).toMatchObject({ peer: none(0), store: none(0) });
    expect(side.buildConnectorMeta().loads.size).toBe(0);
    side.updateStateAfterAlloc(requestOf(), [[]], 0, 90);
    expect([peer.calls.at(-1), store.calls.at(-1)]).toEqual([none(0), none(0)]);
    load(0);
    expect(side.buildConnectorMeta().loads).toEqual(new Map([['r', 2]]));
    store.upTo = 0;
    load(0);
    expect(side.buildConnectorMeta().loads.size).toBe(0);
  });
});

describe('cost-aware', () => {
  // Computing takes 1 ms per token; a load 10 ms plus 1 ms per block; a pull `pullMs`, plus `perToken` per token, plus 50 ms per
  // request at the holder.
  const costsOf = (pullMs: number, perToken = 0) => {
    const partsOf = ({ count, holderRequests }: PullQuestion) => ({
      overheadMs: 0,
      fixedMs: pullMs + 50 * (holderRequests ?? 0),
      movingMs: perToken * count,
    });
    return new SourceCosts({
      load: { fixed_ms: 10, ms_per_byte: 1, samples: 9 },
      pulls: {
        partsOf,
        predict(question) {
          const { fixedMs, movingMs } = partsOf(question);
          return { pullMs: fixedMs + movingMs, recomputeMs: question.count };
        },
      },
      ...{ linked: false, blockSize: 16, kvBytes: kvBytesOf(16, 1) },
    });
  };

  it.each([
    // Saves 90 - 41 ms by both, 40 by the peer alone, 20 by the store alone.
    [5, 0.5, 32, 90, null, { store: 'loads 32 from 0', peer: 'loads 58 from 32' }],
    // Saves 90 - 62 ms by both, 30 by the peer alone.
    [60, 0, 32, 90, null, { store: none(0), peer: 'loads 90 from 0' }],
    [100, 0, 32, 90, null, { store: 'loads 32 from 0', peer: none(0) }],
    [5, 0.5, 32, 90, { remote_num_requests: 2 }, { store: 'loads 32 from 0', peer: none(0) }],
    [5, 0.5, 8, 0, null, { store: none(0), peer: none(0) }],
  ] as const)('takes the cheapest (%i ms, %f): %#', (pullMs, perToken, atStore, atPeer, params, expected) => {
    const { peer, store, load } = start('cost-aware', { costs: costsOf(pullMs, perToken) });
    [peer.upTo, store.upTo] = [atPeer, atStore];
    expect(load(0, params)).toMatchObject(expected);
  });

  it('gives the reason that computing is faster, unless nothing was offered', () => {
    const { peer, store, load } = start('cost-aware', { costs: costsOf(500) });
    [peer.upTo, store.upTo] = [40, 8];
    const reason = 'cost-aware: computing is faster than loading 40 tokens from the store and peers';
    expect(load(0)).toMatchObject({ tokens: 0, noPull: { by: 'policy', reason } });
    [peer.upTo, store.upTo] = [{ noPull: 'gone' }, 0];
    expect(load(0)?.noPull?.reason).toBe('gone');
    [peer.upTo, store.upTo] = [0, 0];
    expect(load(0)).toMatchObject({ tokens: 0, noPull: null });
  });

  it('no longer counts a load that came as in progress, even if its time was not reported', () => {
    const costs = costsOf(500);
    const { store, side, load } = start('cost-aware', { costs });
    store.upTo = 64;
    const alone = costs.loadMs(64);
    load(16);
    const withOne = costsOf(500);
    withOne.started('another', 48);
    expect(costs.loadMs(64)).toBeGreaterThan(alone);
    expect(costs.loadMs(64)).toBe(withOne.loadMs(64));
    const came = { finishedSending: [], finishedRecving: ['r'], failedRecving: [], changed: false };
    side.updateConnectorOutput(came);
    expect(costs.loadMs(64)).toBe(alone);
  });

  it('asks the peer once if the store has nothing, and waits while the store does not know', () => {
    const { peer, store, side } = start('cost-aware', { costs: costsOf(5) });
    [peer.upTo, store.upTo] = [90, 0];
    side.getNumNewMatchedTokens(requestOf(), 0);
    expect(peer.calls).toEqual(['asked from 0']);
    [peer.upTo, store.upTo] = [90, 32];
    side.getNumNewMatchedTokens(requestOf(), 0);
    expect(peer.calls.slice(1)).toEqual(['asked from 32', 'asked from 0']);
    store.upTo = null;
    expect(side.getNumNewMatchedTokens(requestOf(), 0)).toBeNull();
  });

  it("works like 'compose' at D, and if costs are not known", () => {
    for (const [costs, params] of [
      [costsOf(500), { do_remote_prefill: true }],
      [null, null],
    ] as const) {
      const { peer, store, load } = start('cost-aware', { costs });
      [peer.upTo, store.upTo] = [90, 32];
      expect(load(0, params)).toMatchObject({ store: 'loads 32 from 0', peer: 'loads 58 from 32' });
    }
  });
});

describe('calls to all connectors', () => {
  it('report new, refused, computed and preempted requests and outputs, if the connector has the method', () => {
    const { peer, store, side } = start('compose');
    const request = requestOf();
    side.onNewRequest(request);
    side.requestRefused(request);
    side.requestComputed(request, [[]]);
    side.requestPreempted(request);
    side.updateConnectorOutput({
      finishedSending: [],
      finishedRecving: [],
      failedRecving: [],
      changed: false,
    });
    expect(peer.calls).toEqual(['new', 'refused', 'computed', 'preempted', 'output']);
    expect(store.calls).toEqual(['new', 'output']);
  });

  it('deliver metadata, which is due when the first connector says so', () => {
    const { peer, store, side } = start('compose');
    expect(side.metaDueMs()).toBeNull();
    store.dueMs = 70;
    expect(side.metaDueMs()).toBe(70);
    peer.dueMs = 50;
    expect(side.metaDueMs()).toBe(50);
    expect(side.buildConnectorMeta().metas).toEqual(['peer', 'store']);
  });
});

describe('a request that ends', () => {
  const params = (more: Partial<KvTransferParams>) => more as KvTransferParams;

  it('keeps its blocks if any connector needs them; the connectors are counted if several do', () => {
    const { peer, store, side } = start('compose');
    expect(side.requestFinished(requestOf(), [[]])).toEqual({ delayFree: false, kvTransferParams: null });
    peer.left = { delayFree: true, kvTransferParams: null };
    expect(side.requestFinished(requestOf(), [[]]).delayFree).toBe(true);
    expect(side.buildConnectorMeta().sends.size).toBe(0);
    store.left = { delayFree: true, kvTransferParams: null };
    side.requestFinished(requestOf(), [[]]);
    expect(side.buildConnectorMeta().sends).toEqual(new Map([['r', 2]]));
    expect(side.buildConnectorMeta().sends.size).toBe(0);
  });

  it('leaves the parameters of all connectors and what the store had, and throws if two set the same', () => {
    const { peer, store, side, stored } = start('compose');
    peer.left.kvTransferParams = params({ do_remote_prefill: true, remote_port: 5600 });
    expect(side.requestFinished(requestOf(), [[]]).kvTransferParams).toEqual({
      do_remote_prefill: true,
      remote_port: 5600,
    });
    stored(48);
    const withStored = { do_remote_prefill: true, remote_port: 5600, remote_store_num_tokens: 48 };
    expect(side.requestFinished(requestOf(), [[]]).kvTransferParams).toEqual(withStored);
    peer.left.kvTransferParams = params({ do_remote_prefill: false });
    expect(side.requestFinished(requestOf(), [[]]).kvTransferParams).toEqual({ do_remote_prefill: false });
    store.left.kvTransferParams = params({ tp_size: 1 });
    expect(side.requestFinished(requestOf(), [[]]).kvTransferParams).toEqual({
      do_remote_prefill: false,
      tp_size: 1,
    });
    store.left.kvTransferParams = params({ do_remote_prefill: true });
    expect(() => side.requestFinished(requestOf(), [[]])).toThrow(InternalError);
  });
});
