/** The offloading connector's worker side against a fake store: counters, deadlines and releases. */
import { describe, expect, it } from 'vitest';
import { STORE_ADDRESS } from '../../src/config/connectors.ts';
import { StoreAnswers } from '../../src/connector/offloading/answers.ts';
import type { OffloadingMetadata } from '../../src/connector/offloading/metadata.ts';
import { OffloadingWorkerSide } from '../../src/connector/offloading/worker-side.ts';
import type { StoreInfo, TransferInfo } from '../../src/connector/types.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import type {
  PeerNotification,
  ReadRequest,
  ServingTransport,
  TransferResult,
  TransportHandlers,
} from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';

const NO_CLAIM = { held: { numTokens: 0, digest: '' }, prompt: { numTokens: 0, digest: '' } };

/** Both blocks of an offer, in both groups, read into blocks 70 to 73 of the store. */
const BOTH = [
  [0, 0, 70],
  [0, 1, 71],
  [1, 0, 72],
  [1, 1, 73],
] as const;

/** Two groups: a block is 100 + 20 bytes. */
function start({ told = true } = {}) {
  const clock = new TestClock();
  const sent: PeerNotification[] = [];
  const reads: { request: ReadRequest; end: (result: TransferResult | Error) => void }[] = [];
  let handlers: Partial<TransportHandlers> = {};
  const transport: ServingTransport = {
    identity: {
      ...{ engineId: 'p', host: 'localhost', port: 1 },
      ...{ compatibilityHash: '', blockSize: 16, blockBytes: [100, 20] },
    },
    setHandlers(its, peer) {
      expect(peer).toBe(STORE_ADDRESS.engineId);
      handlers = its;
    },
    notify: (remote, notification) => {
      expect(remote).toBe(STORE_ADDRESS);
      sent.push(notification);
    },
    read: (request) =>
      new Promise((resolve, reject) => {
        reads.push({
          request,
          end: (result) => (result instanceof Error ? reject(result) : resolve(result)),
        });
      }),
    clockOffsetSeconds: async () => 0,
  };
  const answers = new StoreAnswers();
  const stored: StoreInfo[] = [];
  const transfers: TransferInfo[] = [];
  const worker = new OffloadingWorkerSide({
    ...{ transport, store: STORE_ADDRESS, clock, answers },
    ...(told
      ? {
          onStored: (info: StoreInfo) => void stored.push(info),
          onTransfer: (info: TransferInfo) => void transfers.push(info),
        }
      : {}),
  });
  const tell = (parts: Partial<OffloadingMetadata>) =>
    worker.startLoadKv({
      revoked: new Set(),
      passed: new Set(),
      released: [],
      loads: new Map(),
      saves: [],
      finished: new Map(),
      ...parts,
    });
  const hear = (notification: PeerNotification, from = 'store') =>
    handlers.onNotification!(from, notification);
  const ask = (leaseId: string) => {
    answers.await(leaseId);
    worker.sendLookup({ requestId: `of ${leaseId}`, leaseId, hashes: ['h1', 'h2'], wait: false });
  };
  const found = (leaseId: string, ids: number[]) =>
    hear({ kind: 'store_found', leaseId, blockIds: [ids, ids], raised: 1, raisedBytes: 8, raisedMs: 3 });
  let number = 0;
  const save = (requestId: string, count = 2) =>
    tell({
      saves: [
        {
          requestId,
          number: ++number,
          hashes: Array.from({ length: count }, (_, i) => `${requestId}.${i}`),
          blockIds: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
    });
  const offerIds = () => sent.flatMap((one) => (one.kind === 'store_offer' ? [one.offerId] : []));
  const released = () => sent.flatMap((one) => (one.kind === 'store_release' ? [one.leaseId] : []));
  const open = (offerId: string) => handlers.streamGate!(offerId, NO_CLAIM, 'store');
  return {
    ...{ clock, sent, reads, answers, stored, transfers, worker, tell, hear, ask, found, save },
    ...{ offerIds, released, open, handlers: () => handlers },
  };
}

describe('a lookup', () => {
  it('is sent, and its answer is kept for the request and reported once, with its times', () => {
    const { clock, sent, answers, stored, worker, ask, found, released } = start();
    ask('a/0');
    expect(sent).toEqual([{ kind: 'store_lookup', leaseId: 'a/0', hashes: ['h1', 'h2'], wait: false }]);
    expect(worker.getFinished().changed).toBe(false);
    const startedMs = clock.now();
    clock.advance(7);
    found('a/0', [31]);
    expect(answers.of('a/0')).toEqual([[31], [31]]);
    expect(worker.getFinished().changed).toBe(true);
    const info = { what: 'store lookup', requestId: 'of a/0', startedMs, endedMs: startedMs + 7, blocks: 1 };
    expect(stored).toEqual([{ ...info, raised: 1, raisedBytes: 8, raisedMs: 3 }]);
    // A second answer for the same lease changes nothing.
    found('a/0', [31]);
    expect(stored).toHaveLength(1);
    expect(answers.of('a/0')).toEqual([[31], [31]]);
    expect(released()).toEqual([]);
    expect(worker.getFinished().changed).toBe(false);
  });

  it('that is no longer needed is released when its answer comes, if anything was found', () => {
    const { answers, ask, found, released } = start();
    for (const [leaseId, blockIds] of [
      ['a/0', [31]],
      ['b/0', []],
    ] as const) {
      ask(leaseId);
      answers.forget(leaseId);
      found(leaseId, [...blockIds]);
    }
    expect(released()).toEqual(['a/0']);
  });

  it('counts as having found nothing after two seconds without an answer, or if it could not be sent', async () => {
    const { clock, answers, worker, ask, handlers, released } = start();
    ask('a/0');
    clock.advance(500);
    ask('b/0');
    let changed = false;
    void worker.waitForChange(new AbortController().signal).then(() => {
      changed = true;
    });
    await settled();
    clock.advance(1499);
    await settled();
    expect([changed, worker.getFinished().changed, answers.of('a/0')]).toEqual([false, false, null]);
    clock.advance(1);
    await settled();
    expect([changed, worker.getFinished().changed]).toEqual([true, true]);
    expect([answers.of('a/0'), answers.of('b/0')]).toEqual([[], null]);
    expect(worker.storeCounters.unanswered).toBe(1);
    // The answer may have been lost, and the store may keep blocks for it.
    expect(released()).toEqual(['a/0']);
    handlers().onNotifyFailed!(
      STORE_ADDRESS,
      { kind: 'store_lookup', leaseId: 'b/0', hashes: [], wait: false },
      'lost',
    );
    expect(answers.of('b/0')).toEqual([]);
    expect(worker.counters.numFailedNotifications).toBe(1);
    expect(worker.storeCounters.unanswered).toBe(1);
  });

  it('is released if the request does not use it', () => {
    const { tell, released } = start();
    tell({ released: ['a/0', 'b/3'] });
    expect(released()).toEqual(['a/0', 'b/3']);
  });
});

describe('an offer', () => {
  it('is counted once, when the store has taken it, and only then its ended request frees its blocks', () => {
    const { clock, stored, worker, tell, hear, save, offerIds } = start();
    const startedMs = clock.now();
    save('a');
    tell({ finished: new Map([['a', 5]]) });
    expect(worker.getFinished().finishedSending).toEqual([]);
    clock.advance(10);
    const answer = { kind: 'store_taken', offerId: offerIds()[0]!, taken: BOTH } as const;
    hear(answer);
    hear(answer);
    expect(worker.getFinished().finishedSending).toEqual(['a']);
    expect(worker.storeCounters).toMatchObject({
      ...{ offeredBlocks: 4, savedBlocks: 4, savedBytes: 240, saveMs: 10, savingBlockMs: 50 },
    });
    const pairs = [
      { group: 0, remote: 70, local: 1 },
      { group: 0, remote: 71, local: 2 },
      { group: 1, remote: 72, local: 3 },
      { group: 1, remote: 73, local: 4 },
    ];
    const info = {
      what: 'save',
      requestId: 'a',
      startedMs,
      endedMs: startedMs + 10,
      blocks: 4,
      bytes: 240,
      pairs,
    };
    expect(stored).toEqual([info]);
    expect(worker.getFinished().finishedSending).toEqual([]);
  });

  it('of which the store took nothing is no save, and an answer to an unknown offer is ignored', () => {
    const { clock, stored, worker, hear, save, offerIds } = start();
    save('a');
    clock.advance(10);
    hear({ kind: 'store_taken', offerId: 'another', taken: [] });
    hear({ kind: 'store_taken', offerId: offerIds()[0]!, taken: [] });
    expect(stored).toEqual([]);
    expect(worker.storeCounters).toMatchObject({ savedBlocks: 0, saveMs: 0 });
  });

  it('is answered only by the store: messages of another engine end no offer and no lookup', () => {
    const { worker, answers, tell, hear, ask, save, offerIds } = start();
    save('a');
    ask('b/0');
    tell({ finished: new Map([['a', 2]]) });
    hear({ kind: 'store_taken', offerId: offerIds()[0]!, taken: BOTH }, 'decode-0');
    hear(
      { kind: 'store_found', leaseId: 'b/0', blockIds: [[9], [9]], raised: 0, raisedBytes: 0, raisedMs: 0 },
      'decode-0',
    );
    expect([worker.getFinished().finishedSending, answers.of('b/0')]).toEqual([[], null]);
    expect(worker.storeCounters).toMatchObject({ savedBlocks: 0, savedBytes: 0 });
    hear({ kind: 'store_taken', offerId: offerIds()[0]!, taken: BOTH });
    expect(worker.getFinished().finishedSending).toEqual(['a']);
  });

  it('of windows is withdrawn when they are freed, but other offers of the request are not', async () => {
    const { sent, worker, tell, hear, save, offerIds, open } = start();
    save('a');
    const window = {
      requestId: 'a',
      hashes: ['h'],
      blockIds: [[1], [3]],
      groups: [1],
      window: true as const,
    };
    tell({ saves: [{ ...window, number: 2 }] });
    expect(sent.at(-1)).toMatchObject({ kind: 'store_offer', hashes: ['h'], groups: [1] });
    expect(worker.storeCounters.offeredBlocks).toBe(4 + 1);
    const { signal } = new AbortController();
    const [plain, ofWindow] = offerIds().map((offerId) => open(offerId));
    const ready = await ofWindow!.ready(0, signal);
    tell({ passed: new Set(['a']), saves: [{ ...window, number: 3 }] });
    expect(ready).toMatchObject({ revoked: { aborted: true } });
    expect(await ofWindow!.ready(0, signal)).toMatchObject({ outcome: 'declined' });
    expect(await plain!.ready(0, signal)).toMatchObject({ numBlocks: 2 });
    // An offer made at the same time is not withdrawn.
    expect(await open(offerIds()[2]!).ready(0, signal)).toMatchObject({ numBlocks: 1 });
    hear({ kind: 'store_taken', offerId: offerIds()[2]!, taken: [[1, 0, 9]] });
    expect(worker.storeCounters).toMatchObject({ savedBlocks: 1, savedBytes: 20 });
  });

  it('has a unique id, and an ended request waits for all of its offers', () => {
    const { worker, tell, hear, save, offerIds } = start();
    save('a');
    save('a');
    save('b');
    const [first, second] = offerIds();
    expect(new Set(offerIds()).size).toBe(3);
    tell({ finished: new Map([['a', 2]]) });
    hear({ kind: 'store_taken', offerId: first!, taken: BOTH });
    expect(worker.getFinished().finishedSending).toEqual([]);
    hear({ kind: 'store_taken', offerId: second!, taken: BOTH });
    expect(worker.getFinished().finishedSending).toEqual(['a']);
  });

  it('can be read block by block until its request revokes it', async () => {
    const { tell, save, offerIds, open } = start();
    save('a');
    save('b');
    const { signal } = new AbortController();
    const [offerId, other] = offerIds();
    const stream = open(offerId!);
    const ready = await stream.ready(1, signal);
    expect(ready).toMatchObject({
      blockIds: [
        [1, 2],
        [3, 4],
      ],
      numBlocks: 2,
    });
    const declined = { outcome: 'declined', message: `offer '${offerId}' has ended.` };
    expect(await stream.ready(2, signal)).toEqual(declined);
    expect(await stream.ready(1, AbortSignal.abort())).toBeNull();
    expect(await open('another').ready(0, signal)).toMatchObject({ outcome: 'declined' });
    tell({ revoked: new Set(['a']) });
    expect(ready).toMatchObject({ revoked: { aborted: true } });
    expect(await stream.ready(0, signal)).toEqual(declined);
    expect(await open(other!).ready(0, signal)).toMatchObject({ numBlocks: 2 });
  });

  it.each([
    ['that is not answered for 30 s', 30_000],
    ['that could not be sent', 0],
    ['of a store that ended', 0],
  ])('%s is withdrawn', async (how, afterMs) => {
    const { clock, worker, answers, tell, ask, save, offerIds, open, handlers } = start();
    save('a');
    ask('b/0');
    tell({ finished: new Map([['a', 1]]) });
    const stream = open(offerIds()[0]!);
    clock.advance(Math.max(0, afterMs - 1));
    expect(worker.getFinished().finishedSending).toEqual([]);
    clock.advance(Math.min(1, afterMs));
    if (how.includes('sent')) {
      const offer = { kind: 'store_offer' as const, offerId: offerIds()[0]!, number: 1, hashes: [] };
      handlers().onNotifyFailed!(STORE_ADDRESS, { ...offer, offerId: 'another' }, 'lost');
      handlers().onNotifyFailed!(STORE_ADDRESS, offer, 'lost');
      expect(worker.counters.numFailedNotifications).toBe(2);
    }
    if (how.includes('ended')) {
      handlers().onPeerGone!('store');
      expect(answers.of('b/0')).toEqual([]);
    }
    expect(worker.getFinished().finishedSending).toEqual(['a']);
    expect(await stream.ready(0, new AbortController().signal)).toMatchObject({ outcome: 'declined' });
    expect(worker.storeCounters.savedBlocks).toBe(0);
  });
});

it('is due when the first lookup or offer has waited long enough, and then gives it up', () => {
  const { clock, worker, ask, found, save, tell } = start();
  expect(worker.dueMs()).toBeNull();
  save('a');
  tell({ finished: new Map([['a', 2]]) });
  const offerEnds = worker.dueMs()!;
  ask('b/0');
  expect(worker.dueMs()).toBe(clock.now() + 2000);
  found('b/0', []);
  expect(worker.dueMs()).toBe(offerEnds);
  clock.advance(offerEnds - clock.now() - 1);
  expect(worker.getFinished().finishedSending).toEqual([]);
  clock.advance(1);
  expect(worker.getFinished().finishedSending).toEqual(['a']);
  expect(worker.dueMs()).toBeNull();
});

describe('a load', () => {
  const pairs = [
    { group: 1, remote: 7, local: 21 },
    { group: 0, remote: 7, local: 11 },
    { group: 0, remote: 8, local: 12 },
  ];
  const load = { leaseId: 'a/0', pairs, numTokens: 32, twice: pairs.slice(0, 2) };

  it('without blocks to read is done at once, and its lease is released', async () => {
    const { reads, worker, tell, released } = start();
    tell({ loads: new Map([['a', { ...load, pairs: [], twice: [] }]]) });
    await settled();
    expect(worker.getFinished()).toMatchObject({ finishedRecving: ['a'], failedRecving: [] });
    expect([reads.length, released()]).toEqual([0, ['a/0']]);
  });

  it('reads under its lease, and is counted', async () => {
    const { clock, reads, worker, transfers, tell } = start();
    tell({ loads: new Map([['a', load]]) });
    expect(reads[0]!.request).toMatchObject({ remote: STORE_ADDRESS, remoteRequestId: 'a/0', pairs });
    const startedMs = clock.now();
    clock.advance(9);
    reads[0]!.end({ ...emptyResult('done', '', 0), bytes: 220, blocks: 2 });
    await settled();
    expect(worker.getFinished()).toMatchObject({ finishedRecving: ['a'], failedRecving: [] });
    expect(worker.counters.transfers).toBe(1);
    expect(worker.storeCounters).toMatchObject({
      ...{ loads: 1, loadMs: 9, loadedTokens: 32, loadedBytes: 220, twoHopBytes: 120, failedLoads: 0 },
    });
    const times = { startedMs, checkedMs: startedMs, endedMs: startedMs + 9 };
    expect(transfers).toMatchObject([{ requestId: 'a', numTokens: 32, ...times, result: { wallMs: 9 } }]);
  });

  it.each([
    [emptyResult('failed', 'why', 0), 'failed', 'why'],
    [emptyResult('dead', 'it ended', 0), 'dead', 'it ended'],
    [new Error('a bug'), 'failed', 'Error: a bug'],
  ] as const)('that fails is declined, with its blocks by group: %#', async (result, outcome, message) => {
    const { reads, worker, tell, released } = start({ told: false });
    tell({ loads: new Map([['a', load]]) });
    expect(released()).toEqual([]);
    reads[0]!.end(result);
    await settled();
    // The store may not have received the READ, and would keep the blocks for it.
    expect(released()).toEqual(['a/0']);
    const invalidBlockIds = [[11, 12], [21]];
    expect(worker.getFinished()).toMatchObject({
      finishedRecving: ['a'],
      failedRecving: [{ requestId: 'a', outcome: 'declined', message, invalidBlockIds }],
    });
    expect(worker.counters).toMatchObject({ numFailedTransfers: 1, pullsNotDone: { [outcome]: 1 } });
    expect(worker.storeCounters).toMatchObject({ loads: 0, failedLoads: 1, loadedTokens: 0, twoHopBytes: 0 });
    expect(worker.counters.transfers).toBe(0);
  });
});

it('the worker side works without onStored and onTransfer', () => {
  const { worker, ask, found, save, hear, offerIds } = start({ told: false });
  ask('a/0');
  found('a/0', [1]);
  save('a');
  hear({ kind: 'store_taken', offerId: offerIds()[0]!, taken: BOTH });
  expect(worker.getFinished().changed).toBe(true);
});
