/** NIXL's worker side alone, over a fake transport: what it reports and counts. */
import { describe, expect, it } from 'vitest';
import { type CostProfile, costProfileSchema } from '../../src/config/cost-profile.ts';
import { createNixlConnector } from '../../src/connector/nixl/connector.ts';
import type { RecvRequest } from '../../src/connector/nixl/metadata.ts';
import { NixlWorkerSide } from '../../src/connector/nixl/worker-side.ts';
import type { PullInfo } from '../../src/connector/types.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import type { TransferOutcome } from '../../src/engine/kv-connector.ts';
import { EngineDeadError, TransferError } from '../../src/errors.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import type { PeerNotification, ServingTransport, TransportHandlers } from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';
import { engineConfig, tokens } from '../engine/fakes.ts';
import { metadata } from './nodes.ts';
import { connectorDefaults } from './scripted.ts';

const CLAIM = { held: { numTokens: 32, digest: 'h' }, prompt: { numTokens: 32, digest: 'p' } };
const PEER = { engineId: 'decode-0', host: 'localhost', port: 5601 };

function fakeTransport(clock: TestClock) {
  const sent: PeerNotification[] = [];
  const ends: ((outcome: TransferOutcome) => void)[] = [];
  let handlers: Partial<TransportHandlers> = {};
  const transport: ServingTransport & { offset: () => Promise<number> } = {
    identity: {
      ...{ engineId: 'prefill-0', host: 'localhost', port: 5600 },
      ...{ compatibilityHash: '', blockSize: 16, blockBytes: [100, 20] },
    },
    setHandlers: (its) => {
      handlers = its;
    },
    notify: (_, notification) => void sent.push(notification),
    read: () =>
      new Promise((resolve) => {
        ends.push((outcome) => resolve(emptyResult(outcome, 'the test says so', 0)));
      }),
    offset: async () => 0,
    clockOffsetSeconds: () => transport.offset(),
  };
  return { transport, sent, ends, handlers: () => handlers, clock };
}

describe('the worker side', () => {
  function start() {
    const fake = fakeTransport(new TestClock());
    const pulls: PullInfo[] = [];
    const worker = new NixlWorkerSide({
      ...{ config: connectorDefaults.nixl, groups: FULL_GROUP, transport: fake.transport, clock: fake.clock },
      onPull: (info) => void pulls.push(info),
    });
    const pull = (more: Partial<RecvRequest> = {}, blocksExpiryTime: number | null = null) => {
      const recv: RecvRequest = {
        remote: { ...PEER, requestId: 'r@d', claim: CLAIM, blocksExpiryTime },
        pairs: [
          { group: 0, remote: 1, local: 11 },
          { group: 0, remote: 2, local: 12 },
          { group: 1, remote: 3, local: 21 },
        ],
        ...{ numTokens: 32, ...more },
      };
      worker.startLoadKv(metadata({ reqsToRecv: new Map([['r', recv]]) }));
    };
    return { ...fake, worker, pull, pulls };
  }

  it("reports a pull's start and failure; 'declined' and 'expired' do not count as failed transfers", async () => {
    for (const [outcome, failures] of [
      ['declined', 0],
      ['expired', 0],
      ['refused', 1],
      ['failed', 1],
      ['dead', 1],
    ] as const) {
      const { worker, pull, pulls, ends } = start();
      pull();
      await settled();
      expect(pulls).toMatchObject([{ requestId: 'r', streamed: false, remote: { engineId: 'decode-0' } }]);
      ends[0]!(outcome);
      await settled();
      expect(worker.getFinished().failedRecving).toEqual([
        { requestId: 'r', outcome, message: 'the test says so', invalidBlockIds: [[11, 12], [21]] },
      ]);
      expect(worker.counters.pullsNotDone).toMatchObject({ [outcome]: 1 });
      expect([worker.counters.transfers, worker.counters.numFailedTransfers]).toEqual([0, failures]);
    }
  });

  it('includes the handshake for the expiry check in the time of the pull', async () => {
    const { clock, transport, worker, pull, ends } = start();
    let passed = () => {};
    transport.offset = () =>
      new Promise((resolve) => {
        passed = () => resolve(0);
      });
    let result = emptyResult('failed', '', 0);
    transport.read = async () => {
      result = emptyResult('done', '', 0);
      return result;
    };
    pull({}, clock.now() / 1000 + 100);
    clock.advance(30);
    passed();
    await settled();
    expect(ends).toEqual([]);
    expect(worker.getFinished()).toMatchObject({ finishedRecving: ['r'], failedRecving: [] });
    expect(result).toMatchObject({ wallMs: 30, stages: { handshakeMs: 30 } });
  });

  it.each([
    [4.9, "request 'r@d' is held for 4.9 s more, but a READ needs a margin of 5 s."],
    [0, "request 'r@d' was held until 0.0 s ago."],
    [-12.5, "request 'r@d' was held until 12.5 s ago."],
  ])('does not begin a pull of blocks %f s before they expire, and says why', async (seconds, message) => {
    const { clock, worker, pull } = start();
    pull({}, clock.now() / 1000 + seconds);
    await settled();
    expect(worker.getFinished().failedRecving).toMatchObject([{ outcome: 'expired', message }]);
  });

  it.each([
    [new EngineDeadError('it ended'), 'dead'],
    [new TransferError('no handshake'), 'failed'],
  ] as const)('ends a pull whose handshake fails: %s', async (error, outcome) => {
    const { clock, transport, worker, pull } = start();
    transport.offset = async () => {
      throw error;
    };
    pull({}, clock.now() / 1000 + 100);
    await settled();
    expect(worker.getFinished().failedRecving).toMatchObject([{ outcome, message: error.message }]);
  });

  it('reports a pull that needs no blocks, but not one of 0 tokens, which only lets the holder free', () => {
    for (const [numTokens, finishedRecving] of [
      [1, ['r']],
      [0, []],
    ] as const) {
      const { sent, worker, pull, pulls } = start();
      pull({ pairs: [], numTokens });
      expect(worker.getFinished().finishedRecving).toEqual(finishedRecving);
      expect(sent).toEqual([{ kind: 'done_reading', requestId: 'r@d', held: CLAIM.held }]);
      expect(pulls).toEqual([]);
    }
  });

  it('tells holders which holds will not be read, and ignores a cancel without a pull', () => {
    const { sent, worker } = start();
    const hold = { requestId: 'x@d', held: CLAIM.held };
    worker.startLoadKv(metadata({ refused: [{ remote: PEER, hold }], reqsToCancel: new Set(['gone']) }));
    expect(sent).toEqual([{ kind: 'done_reading', ...hold }]);
  });

  it('is due at the first deadline, reports dropped and expired holds, and counts drops by direction', async () => {
    const { clock, worker, handlers } = start();
    expect(worker.dueMs()).toBeNull();
    let woken = 0;
    const wait = () => void worker.waitForChange(new AbortController().signal).then(() => woken++);
    wait();
    await settled();
    worker.startLoadKv(metadata({ reqsInBatch: new Set(['a', 'b', 'c']) }));
    const send = { blockIds: [[1]], tokenIds: tokens(16), cacheSalt: null, deadline: clock.now() + 50 };
    worker.startLoadKv(
      metadata({
        reqsToSend: new Map([
          ['a', { ...send, direction: 'decode' as const }],
          ['b', { ...send, direction: 'decode' as const }],
        ]),
      }),
    );
    await settled();
    expect([woken, worker.dueMs()]).toEqual([0, clock.now() + 50]);
    expect(worker.holds.dropOldest('waiting')).toBe('a');
    // A message that does not concern holds.
    handlers().onNotification!('store', { kind: 'store_taken', offerId: 'o', taken: [[0, 0, 7]] });
    await settled();
    clock.advance(50);
    await settled();
    expect(woken).toBe(1);
    expect(worker.getFinished().finishedSending).toEqual(['a', 'b']);
    expect(worker.counters).toMatchObject({ holdsDropped: { prefill: 0, decode: 1 }, numKvExpired: 1 });
  });
});

it('a hold that is made while the engine sleeps ends the sleep when it expires', async () => {
  const { transport, clock } = fakeTransport(new TestClock());
  const worker = new NixlWorkerSide({
    ...{ config: connectorDefaults.nixl, groups: FULL_GROUP, transport, clock },
  });
  let woken = false;
  void worker.waitForChange(new AbortController().signal).then(() => {
    woken = true;
  });
  await settled();
  const send = { blockIds: [[1]], tokenIds: tokens(16), cacheSalt: null, direction: 'decode' as const };
  worker.startLoadKv(
    metadata({
      reqsInBatch: new Set(['a']),
      reqsToSend: new Map([['a', { ...send, deadline: clock.now() + 50 }]]),
    }),
  );
  await settled();
  clock.advance(49);
  await settled();
  expect(woken).toBe(false);
  clock.advance(1);
  await settled();
  expect([woken, worker.getFinished().finishedSending]).toEqual([true, ['a']]);
});

it('the cost-aware policy learns from successful pulls only', async () => {
  const profile: CostProfile = costProfileSchema.parse({
    ...{ kvferry_cost_profile: 1, kvferry: '0.1.0', date: '2026-01-01T00:00:00.000Z', model: 'nano' },
    ...{ weight_dtype: 'f16', adapter: 'an adapter', link: null, block_size: 16, block_bytes: 120 },
    ...{ layout: 'contiguous', recommended_threshold: null },
    pull: { overhead_ms: 1, fixed_ms: 1, ms_per_byte: 0 },
    prefill: { fixed_ms: 0, ms_per_token: 1, ms_per_token_context: 0 },
    fit: {
      ...{ samples: 9, rounds: 3, least_tokens: 16, most_tokens: 512, ttft_r2: 1, ttft_median_error: 0 },
      ...{ transfer_r2: 1, transfer_median_error: 0 },
    },
  });
  for (const [outcome, learned] of [
    ['done', true],
    ['failed', false],
  ] as const) {
    const { transport, ends, clock } = fakeTransport(new TestClock());
    const transfers: string[] = [];
    const { worker, costAware } = createNixlConnector(
      { ...connectorDefaults.nixl, costProfile: profile },
      {
        ...{ engine: engineConfig(), transport, clock },
        ...{ onPull() {}, onHoldDropped() {}, onChunk() {}, onStored() {} },
        onTransfer: ({ requestId }) => void transfers.push(requestId),
      },
    );
    const question = { count: 16, localHitTokens: 0, promptTokens: 40, holderRequests: null };
    const before = costAware!.predict(question);
    costAware!.started('r', question);
    const recv: RecvRequest = {
      remote: { ...PEER, requestId: 'r@d', claim: CLAIM, blocksExpiryTime: null },
      ...{ pairs: [{ group: 0, remote: 1, local: 11 }], numTokens: 16 },
    };
    worker.startLoadKv(metadata({ reqsToRecv: new Map([['r', recv]]) }));
    await settled();
    ends[0]!(outcome);
    await settled();
    expect(costAware!.predict(question).pullMs !== before.pullMs).toBe(learned);
    expect(transfers).toEqual(['r']);
  }
});
