/** A MultiConnector over fake connectors: which of them it waits for, and what it counts. */
import { describe, expect, it } from 'vitest';
import { STORE_ADDRESS } from '../../src/config/connectors.ts';
import type { Composition } from '../../src/config/kv-connectors.ts';
import { createMultiConnector } from '../../src/connector/multi/connector.ts';
import { SecondHops } from '../../src/connector/multi/second-hops.ts';
import { MultiWorkerSide } from '../../src/connector/multi/worker-side.ts';
import type { CostAwarePolicy } from '../../src/connector/policy/cost-aware.ts';
import type { PullQuestion } from '../../src/connector/policy/pull-policy.ts';
import type { SourceCostsDeps } from '../../src/connector/policy/source-costs.ts';
import { type ConnectorDeps, type EngineConnector, noTransfers } from '../../src/connector/types.ts';
import type { ExternalMatch } from '../../src/engine/kv-connector.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import { settled, TestClock } from '../clock.ts';
import { engineConfig } from '../engine/fakes.ts';
import { makeEngine } from '../transport/helpers.ts';
import { FakeConnector, requestOf } from './fake-connector.ts';

describe('second hops', () => {
  const hops = () => new SecondHops({ blockSize: 16, blockBytes: [10, 7], storedTokens: () => null });
  const handedOver = (stored?: number) =>
    requestOf({
      do_remote_prefill: true,
      ...(stored === undefined ? {} : { remote_store_num_tokens: stored }),
    });

  it.each([
    [handedOver(70), 16, true, 30],
    [handedOver(70), 70, true, 0],
    [handedOver(64), 80, true, 0],
    [handedOver(70), 16, false, 0],
    [handedOver(), 16, true, 0],
    [requestOf({ do_remote_prefill: false, remote_store_num_tokens: 70 }), 16, true, 0],
    [requestOf(), 16, true, 0],
  ])(
    'count whole blocks that the store had before and that came from the peer: %#',
    (request, from, came, bytes) => {
      const counted = hops();
      // The second group has only the blocks of its window.
      counted.pulls(request, from, [
        [1, 2, 3, 4, 5],
        [0, 0, 0, 0, 9],
      ]);
      counted.pulled('another', came);
      counted.pulled('r', came);
      counted.pulled('r', came);
      expect(counted.bytes).toBe(bytes);
    },
  );
});

describe('the worker side', () => {
  const start = () => {
    const [a, b] = [new FakeConnector('a'), new FakeConnector('b')];
    const worker = new MultiWorkerSide([a.worker, b.worker]);
    const tell = (loads: [string, number][], sends: [string, number][]) =>
      worker.startLoadKv({ metas: ['for a', 'for b'], loads: new Map(loads), sends: new Map(sends) });
    return { a, b, worker, tell };
  };

  it('gives each connector its metadata, and reports a request once all that work on it are done', () => {
    const { a, b, worker, tell } = start();
    tell([['both', 2]], [['kept', 2]]);
    expect([a.metas, b.metas]).toEqual([['for a'], ['for b']]);
    a.output = { finishedRecving: ['both', 'alone'], finishedSending: ['kept'] };
    expect(worker.keptTwice('kept')).toBe(true);
    // Its last keeper can now let it go.
    expect(worker.getFinished()).toMatchObject({
      ...{ finishedRecving: ['alone'], finishedSending: [], changed: true },
    });
    expect([worker.keptTwice('kept'), worker.keptTwice('plain')]).toEqual([false, false]);
    b.output = { finishedRecving: ['both'], finishedSending: ['kept', 'plain'], changed: true };
    expect(worker.getFinished()).toMatchObject({
      ...{ finishedRecving: ['both'], finishedSending: ['kept', 'plain'], changed: true },
    });
    tell([['three', 3]], []);
    a.output = { finishedRecving: ['three', 'three'] };
    expect(worker.getFinished().finishedRecving).toEqual([]);
    a.output = { finishedRecving: ['three'] };
    expect(worker.getFinished().finishedRecving).toEqual(['three']);
    // The counts are used up: the same id now belongs to another request.
    a.output = { finishedRecving: ['both'] };
    expect(worker.getFinished()).toMatchObject({ finishedRecving: ['both'], changed: false });
  });

  it('is due when the first of its connectors is', () => {
    const due = (...all: (number | null)[]) =>
      new MultiWorkerSide([
        new FakeConnector('never due').worker,
        ...all.map((ms) => ({ ...new FakeConnector('due').worker, dueMs: () => ms })),
      ]).dueMs();
    expect([due(), due(null), due(null, 70), due(70, 50)]).toEqual([null, null, 70, 50]);
  });

  it('waits until one connector changes or the signal aborts, and then ends the other waits', async () => {
    const { a, b, worker } = start();
    const stop = new AbortController();
    let over = false;
    const end = () => {
      over = true;
    };
    void worker.waitForChange(stop.signal).then(end);
    await settled();
    expect([over, a.signal!.aborted]).toEqual([false, false]);
    b.change();
    await settled();
    expect([over, a.signal!.aborted]).toEqual([true, true]);
    void worker.waitForChange(stop.signal);
    stop.abort();
    expect(b.signal!.aborted).toBe(true);
    void worker.waitForChange(AbortSignal.abort());
    expect(b.signal!.aborted).toBe(true);
  });
});

describe('a MultiConnector', () => {
  const store = { counters: storeCounters(7), storedTokens: () => 48 };

  function storeCounters(twoHopBytes: number) {
    const zero = {
      loads: 0,
      loadedTokens: 0,
      loadedBytes: 0,
      failedLoads: 0,
      offeredBlocks: 0,
      savedBlocks: 0,
    };
    return { ...zero, savedBytes: 0, loadMs: 0, saveMs: 0, savingBlockMs: 0, unanswered: 0, twoHopBytes };
  }

  function make(
    parts: readonly Partial<EngineConnector>[],
    {
      composition = 'compose',
      load = null,
    }: { composition?: Composition; load?: SourceCostsDeps['load'] | null } = {},
  ) {
    const clock = new TestClock();
    const { transport } = makeEngine('engine', { clock });
    const made: ConnectorDeps[] = [];
    const told: string[] = [];
    const makers = parts.map((part, i) => (deps: ConnectorDeps) => {
      made.push(deps);
      const { scheduler, worker } = new FakeConnector(`${i}`);
      return { scheduler, worker, counters: noTransfers(), costAware: null, ...part };
    });
    const deps: ConnectorDeps = {
      ...{ engine: engineConfig(), transport, clock },
      ...{ onPull() {}, onHoldDropped() {}, onChunk() {}, onStored() {} },
      onTransfer: ({ requestId }) => void told.push(requestId),
    };
    return {
      connector: createMultiConnector(composition, makers, deps, load && { load, linked: false }),
      made,
      told,
      transport,
    };
  }

  it('has the holds and the store of its connectors, and the sum of their counters', () => {
    const holds = {} as NonNullable<EngineConnector['holds']>;
    const counted = { ...noTransfers(), transfers: 2, holdsDropped: { prefill: 1, decode: 4 } };
    const other = {
      ...noTransfers(),
      transfers: 3,
      numKvExpired: 1,
      holdsDropped: { prefill: 1, decode: 0 },
    };
    other.pullsNotDone.failed = 5;
    const { connector } = make([{ counters: counted }, { holds, store, counters: other }]);
    expect(connector.holds).toBe(holds);
    expect(connector.store?.storedTokens('r')).toBe(48);
    expect(connector.counters).toEqual({
      ...{ ...noTransfers(), transfers: 5, numKvExpired: 1, holdsDropped: { prefill: 2, decode: 4 } },
      pullsNotDone: { declined: 0, expired: 0, refused: 0, failed: 5, dead: 0 },
    });
    const without = make([{}]).connector;
    expect(without).not.toHaveProperty('holds');
    expect(without).not.toHaveProperty('store');
  });

  it('learns the cost of loads from successful ones, if there is a cost-aware policy', () => {
    const costAware = {
      predict: ({ count }: PullQuestion) => ({ pullMs: 1e9, recomputeMs: count }),
      partsOf: () => ({ overheadMs: 0, fixedMs: 1e9, movingMs: 0 }),
    } as Partial<CostAwarePolicy> as CostAwarePolicy;
    /** Number of turns until a load is predicted to cost more than computing; null if it never is. */
    const dearAfter = (outcome: 'done' | 'failed', known: boolean) => {
      const [peer, ofStore] = [new FakeConnector('peer'), new FakeConnector('store')];
      ofStore.upTo = 64;
      const { connector, made } = make(
        [
          { scheduler: peer.scheduler, costAware: known ? costAware : null },
          { scheduler: ofStore.scheduler, store },
        ],
        { composition: 'cost-aware', load: { fixed_ms: 30, ms_per_byte: 0, samples: 9 } },
      );
      const { scheduler } = connector;
      for (let turn = 0; turn < 60; turn++) {
        const { tokens } = scheduler.getNumNewMatchedTokens(requestOf(), 0)!;
        if (tokens === 0) return turn;
        scheduler.updateStateAfterAlloc(requestOf(), [[]], 0, tokens);
        made[1]!.onTransfer({
          ...{ requestId: 'r', remote: STORE_ADDRESS, numTokens: 64, startedMs: 0, checkedMs: 0, endedMs: 1 },
          result: { ...emptyResult(outcome, '', 100), bytes: 100 },
        });
      }
      return null;
    };
    expect(dearAfter('done', true)).toBeGreaterThan(0);
    expect([dearAfter('failed', true), dearAfter('done', false)]).toEqual([null, null]);
  });

  it('counts as second hops what a pull brought although the store had it, plus what the store counts', () => {
    const { connector, made, told, transport } = make([{}, { store }]);
    const request = requestOf({ do_remote_prefill: true, remote_store_num_tokens: 32 });
    const blockBytes = transport.identity.blockBytes.reduce((sum, bytes) => sum + bytes, 0);
    const pulled = (engineId: string, outcome: 'done' | 'failed') => {
      connector.scheduler.getNumNewMatchedTokens(request, 0);
      made[0]!.onTransfer({
        ...{ requestId: 'r', remote: { ...STORE_ADDRESS, engineId }, numTokens: 32 },
        ...{ startedMs: 0, checkedMs: 0, endedMs: 1, result: emptyResult(outcome, '', 1) },
      });
      return connector.store!.counters.twoHopBytes;
    };
    expect(pulled('prefill', 'done')).toBe(7);
    const fromPeer: ExternalMatch = { tokens: 64, noPull: null };
    made.length = 0;
    const again = make([
      { scheduler: { ...new FakeConnector('p').scheduler, getNumNewMatchedTokens: () => fromPeer } },
      { store },
    ]);
    const table = transport.identity.blockBytes.map((_, group) => [1, 2, 3, 4].map((id) => 10 * group + id));
    const hop = (engineId: string, outcome: 'done' | 'failed') => {
      again.connector.scheduler.getNumNewMatchedTokens(request, 0);
      again.connector.scheduler.updateStateAfterAlloc(request, table, 0, 64);
      again.made[0]!.onTransfer({
        ...{ requestId: 'r', remote: { ...STORE_ADDRESS, engineId }, numTokens: 64 },
        ...{ startedMs: 0, checkedMs: 0, endedMs: 1, result: emptyResult(outcome, '', 1) },
      });
      return again.connector.store!.counters.twoHopBytes - 7;
    };
    expect(hop('prefill', 'failed')).toBe(0);
    expect(hop('prefill', 'done')).toBe(2 * blockBytes);
    expect(hop(STORE_ADDRESS.engineId, 'done')).toBe(2 * blockBytes);
    expect(told).toEqual(['r']);
    expect(again.told).toEqual(['r', 'r', 'r']);
  });
});
