/** How long the worker side keeps holds for readers: leases, TTLs, heartbeats, notifications, pins, pressure. */
import { describe, expect, it } from 'vitest';
import { pairsOf, range, turns } from '../transport/helpers.ts';
import {
  claimOf,
  claimTo,
  hold,
  LEASE_MS,
  lease,
  makeNodes,
  metadata,
  NEVER,
  nextOutput,
  nothing,
  pull,
  sends,
  TTL_MS,
  ttl,
} from './nodes.ts';

/** P holds [1, 2, 3] for D, and D's READ has begun: its gathers wait until `go`. */
async function whileReading(kept: typeof lease | typeof ttl = lease) {
  const nodes = makeNodes();
  const { clock, p, d } = nodes;
  hold(p, 'r@prefill', [1, 2, 3], kept(clock));
  const waiting: (() => void)[] = [];
  p.memory.onGather = () => new Promise<void>((resolve) => waiting.push(resolve));
  pull(d, p, 'r', pairsOf([1, 2, 3], [1, 2, 3]));
  await turns();
  expect(p.worker.holds.list()).toMatchObject([{ requestId: 'r@prefill', reading: true }]);
  const go = async () => {
    p.memory.onGather = null;
    for (const gather of waiting.splice(0)) gather();
    await turns();
  };
  return { ...nodes, go };
}

describe('the end of a hold', () => {
  it('abort_timeout_on_prefiller: comes once, when the lease ends, if there is no READ', () => {
    const { clock, p } = makeNodes();
    hold(p, 'r', [1, 2], lease(clock));
    clock.advance(LEASE_MS - 1);
    expect(p.worker.getFinished().finishedSending).toEqual([]);
    expect(p.worker.holds.list()).toHaveLength(1);
    clock.advance(1);
    expect(p.worker.getFinished()).toEqual({ ...nothing, finishedSending: ['r'] });
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(p.worker.counters.numKvExpired).toBe(1);
  });

  it('comes at its own deadline, in any order of holds', () => {
    const { clock, p } = makeNodes();
    hold(p, 'long', [1], ttl(clock));
    hold(p, 'short', [2], lease(clock));
    clock.advance(LEASE_MS);
    expect(p.worker.getFinished().finishedSending).toEqual(['short']);
    clock.advance(TTL_MS);
    expect(p.worker.getFinished().finishedSending).toEqual(['long']);
  });

  it('comes once, by expiry or by notification, whichever is first', async () => {
    const { clock, p, d } = makeNodes();
    hold(p, 'a@prefill', [1], lease(clock));
    hold(p, 'b@prefill', [2], lease(clock));
    pull(d, p, 'a', []);
    pull(d, p, 'a', []);
    await turns();
    expect(p.worker.getFinished().finishedSending).toEqual(['a@prefill']);
    clock.advance(LEASE_MS);
    expect(p.worker.getFinished().finishedSending).toEqual(['b@prefill']);
    pull(d, p, 'b', []);
    await turns();
    clock.advance(LEASE_MS);
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(p.worker.counters.numKvExpired).toBe(1);
  });

  it('does not come by a notification for an unknown request', async () => {
    const { p, d } = makeNodes();
    pull(d, p, 'nobody', []);
    await turns();
    expect(p.worker.getFinished()).toEqual(nothing);
  });

  it('comes at once if the notification came before the hold', async () => {
    const { clock, p, d } = makeNodes();
    const send = sends('r@prefill', [1], lease(clock));
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['r@prefill']) }));
    pull(d, p, 'r', []);
    await turns();
    expect(p.worker.getFinished()).toEqual(nothing);
    p.worker.startLoadKv(metadata({ reqsToSend: send }));
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('comes at once by release(), which ignores unknown ids', async () => {
    const { clock, p, d } = makeNodes();
    hold(p, 'r@prefill', [1], lease(clock));
    p.worker.holds.release('nobody');
    p.worker.holds.release('r@prefill');
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
    pull(d, p, 'r', pairsOf([1], [1]));
    expect((await nextOutput(d)).failedRecving).toMatchObject([{ outcome: 'declined' }]);
  });
});

describe('a new hold', () => {
  it('that was not announced in reqsInBatch ends at once, so that its blocks do not leak', () => {
    const { clock, p } = makeNodes();
    p.worker.startLoadKv(metadata({ reqsToSend: sends('r', [1], lease(clock)) }));
    expect(p.worker.getFinished().finishedSending).toEqual(['r']);
    expect(p.worker.holds.list()).toEqual([]);
  });

  it('may be announced in the same metadata', () => {
    const { clock, p } = makeNodes();
    const send = sends('r', [1], lease(clock));
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['r']), reqsToSend: send }));
    expect(p.worker.holds.list()).toMatchObject([{ requestId: 'r', blockIds: [[1]], reading: false }]);
  });

  it('aborted_request_removed_from_worker_in_batch: is no longer announced after reqsNotProcessed', () => {
    const { clock, p } = makeNodes();
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['r']) }));
    p.worker.startLoadKv(metadata({ reqsNotProcessed: new Set(['r']) }));
    expect(p.worker.getFinished()).toEqual(nothing);
    p.worker.startLoadKv(metadata({ reqsToSend: sends('r', [1], lease(clock)) }));
    expect(p.worker.holds.list()).toEqual([]);
  });

  it('is rejected if the metadata says too that its request leaves no blocks', () => {
    const { clock, p } = makeNodes();
    const send = sends('r', [1], lease(clock));
    const both = metadata({ reqsNotProcessed: new Set(['r']), reqsToSend: send });
    expect(() => p.worker.startLoadKv(both)).toThrow(
      "request 'r' leaves blocks to send and is reported as leaving none",
    );
  });
});

describe('heartbeats', () => {
  const beat = (nodes: ReturnType<typeof makeNodes>, ...requestIds: string[]) => {
    const holds = requestIds.map((requestId) => ({ requestId, held: claimTo(requestId).held }));
    nodes.d.worker.startLoadKv(metadata({ heartbeats: [{ remote: nodes.p.address, holds }] }));
    return turns();
  };

  it('extend a lease to now + two thirds of its length, and never shorten it', async () => {
    const nodes = makeNodes();
    const { clock, p } = nodes;
    const start = clock.now();
    hold(p, 'r', [1], lease(clock));
    clock.advance(5_000);
    await beat(nodes, 'r');
    // 5 s + 20 s is sooner than the 30 s that it had.
    expect(p.worker.holds.list()[0]!.deadline).toBe(start + LEASE_MS);
    clock.advance(20_000);
    await beat(nodes, 'r', 'unknown');
    expect(p.worker.holds.list()[0]!.deadline).toBe(start + 25_000 + 20_000);
    clock.advance(19_999);
    expect(p.worker.getFinished().finishedSending).toEqual([]);
    clock.advance(1);
    expect(p.worker.getFinished().finishedSending).toEqual(['r']);
    await beat(nodes, 'r');
    expect(p.worker.holds.list()).toEqual([]);
  });

  it('do not extend a decode hold, whose TTL is fixed', async () => {
    const nodes = makeNodes();
    const { clock, p } = nodes;
    const deadline = clock.now() + 1000;
    hold(p, 'r', [1], { direction: 'decode', deadline });
    await beat(nodes, 'r');
    expect(p.worker.holds.list()[0]!.deadline).toBe(deadline);
  });

  it('to an engine that is gone are counted as failed notifications', async () => {
    const nodes = makeNodes();
    nodes.d.transport.peerDied('prefill');
    await beat(nodes, 'r');
    expect(nodes.d.worker.counters.numFailedNotifications).toBe(1);
  });
});

describe('a READ that has begun', () => {
  it('pins its blocks past their expiry, and succeeds', async () => {
    const { clock, p, d, go } = await whileReading();
    clock.advance(LEASE_MS * 2);
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(p.worker.holds.list()).toHaveLength(1);
    await go();
    expect((await nextOutput(d)).failedRecving).toEqual([]);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('does not let another READ begin past the expiry', async () => {
    const { clock, p, d, go } = await whileReading();
    clock.advance(LEASE_MS);
    pull(d, p, 'late', pairsOf([1], [9]), { requestId: 'r@prefill' });
    expect((await nextOutput(d)).failedRecving).toMatchObject([{ requestId: 'late', outcome: 'expired' }]);
    await go();
  });

  it("is not disturbed by another reader's done_reading, which takes effect after it", async () => {
    const { p, d, go } = await whileReading();
    pull(d, p, 'other', [], { requestId: 'r@prefill' });
    await turns();
    expect(p.worker.getFinished()).toEqual(nothing);
    await go();
    expect((await nextOutput(d)).finishedRecving).toEqual(['r']);
    await turns();
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('is not disturbed by release() or pressure', async () => {
    const { p, d, go } = await whileReading(ttl);
    expect(p.worker.holds.dropOldest('stuck')).toBeNull();
    p.worker.holds.release('r@prefill');
    expect(p.worker.getFinished()).toEqual(nothing);
    await go();
    expect((await nextOutput(d)).failedRecving).toEqual([]);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('does not let another READ begin once its hold is to end', async () => {
    const { p, d, go } = await whileReading(ttl);
    p.worker.holds.release('r@prefill');
    pull(d, p, 'late', pairsOf([1], [9]), { requestId: 'r@prefill' });
    expect((await nextOutput(d)).failedRecving).toMatchObject([{ requestId: 'late', outcome: 'declined' }]);
    await go();
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it("ends with its reader's engine, once the device has finished the copies", async () => {
    const { p, d, go } = await whileReading();
    d.transport.close();
    await turns();
    expect(p.worker.holds.list()).toMatchObject([{ requestId: 'r@prefill', reading: true }]);
    await go();
    expect(p.worker.getFinished().finishedSending).toContain('r@prefill');
  });
});

describe('dropOldest', () => {
  it('drops the oldest hold for P each time, and no hold for D', async () => {
    const { clock, p, d } = makeNodes();
    hold(p, 'for-d', [1], lease(clock));
    for (const i of range(0, 3)) hold(p, `for-p${i}`, [i + 2], ttl(clock));
    expect(p.worker.holds.dropOldest('stuck')).toBe('for-p0');
    expect(p.worker.holds.dropOldest('stuck')).toBe('for-p1');
    expect(p.worker.getFinished().finishedSending).toEqual(['for-p0', 'for-p1']);
    pull(d, p, 'r', pairsOf([2], [1]), { requestId: 'for-p0' });
    expect((await nextOutput(d)).failedRecving).toMatchObject([
      { outcome: 'declined', message: expect.stringContaining('the pool was full') },
    ]);
    expect(p.worker.holds.dropOldest('stuck')).toBe('for-p2');
    expect(p.worker.holds.dropOldest('stuck')).toBeNull();
    expect(p.worker.holds.list().map((held) => held.requestId)).toEqual(['for-d']);
  });
});

describe("a hold of P's that D does not read", () => {
  it('may be dropped once two heartbeats are missing, which is reported once', async () => {
    const { clock, p } = makeNodes();
    hold(p, 'abandoned', [1], lease(clock));
    clock.advance(LEASE_MS / 3 - 1);
    expect(p.worker.getFinished().changed).toBe(false);
    expect(p.worker.holds.dropOldest('waiting')).toBeNull();
    const woken = p.worker.waitForChange(NEVER);
    clock.advance(1);
    await woken;
    expect(p.worker.getFinished()).toEqual({ ...nothing, changed: true });
    expect(p.worker.getFinished().changed).toBe(false);
    expect(p.worker.holds.dropOldest('waiting')).toBe('abandoned');
    expect(p.worker.counters.holdsDropped).toEqual({ prefill: 1, decode: 0 });
  });

  it('is not dropped while its reader sends heartbeats, and ends when the reader does', async () => {
    const { clock, p, d } = makeNodes();
    hold(p, 'r@prefill', [1], lease(clock));
    const { held } = claimTo('r@prefill');
    for (let beat = 0; beat < 4; beat++) {
      clock.advance(LEASE_MS / 6);
      const heartbeats = [{ remote: p.address, holds: [{ requestId: 'r@prefill', held }] }];
      d.worker.startLoadKv(metadata({ heartbeats }));
      await turns();
    }
    expect(p.worker.holds.dropOldest('waiting')).toBeNull();
    d.transport.close();
    await turns();
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });
});

it('the reader of a dropped hold is told so, even if 5,000 other holds have ended since', async () => {
  const { clock, p, d } = makeNodes();
  hold(p, 'r@prefill', [1, 2], ttl(clock));
  p.worker.holds.dropOldest('waiting');
  for (let i = 0; i < 5_000; i++) {
    hold(p, `other${i}`, [3], ttl(clock));
    p.worker.holds.doneReading({ requestId: `other${i}`, held: claimTo(`other${i}`).held });
  }
  const claim = { held: claimOf(32), prompt: claimOf(32) };
  pull(d, p, 'r', pairsOf([1, 2], [1, 2]), { claim });
  expect((await nextOutput(d)).failedRecving).toMatchObject([{ outcome: 'declined' }]);
});

describe('waitForChange', () => {
  /** Whether the wait is over, without waiting for it. */
  function watch(wait: Promise<void>) {
    const state = { over: false };
    void wait.then(() => {
      state.over = true;
    });
    return state;
  }

  it('ends at a deadline, even one that has moved', async () => {
    const nodes = makeNodes();
    const { clock, p } = nodes;
    hold(p, 'r', [1], lease(clock));
    const wait = watch(p.worker.waitForChange(new AbortController().signal));
    clock.advance(LEASE_MS / 3 - 1);
    const holds = [{ requestId: 'r', held: claimTo('r').held }];
    nodes.d.worker.startLoadKv(metadata({ heartbeats: [{ remote: p.address, holds }] }));
    await turns();
    clock.advance(LEASE_MS / 3 - 1);
    await turns();
    expect(wait.over).toBe(false);
    clock.advance(1);
    await turns();
    expect(wait.over).toBe(true);
    expect(p.worker.getFinished()).toEqual({ ...nothing, changed: true });
  });

  it('ends with something to report or with its signal, and not before', async () => {
    const { clock, p, d } = makeNodes();
    const stop = new AbortController();
    const stopped = watch(p.worker.waitForChange(stop.signal));
    const news = watch(p.worker.waitForChange(new AbortController().signal));
    await turns();
    stop.abort();
    await turns();
    expect([stopped.over, news.over]).toEqual([true, false]);
    hold(p, 'r@prefill', [1], lease(clock));
    await turns();
    expect(news.over).toBe(false);
    pull(d, p, 'r', []);
    await turns();
    expect(news.over).toBe(true);
    // The report has not been polled yet, so that a further wait ends at once.
    await p.worker.waitForChange(new AbortController().signal);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('ends when a pinned hold whose deadline has passed is unpinned', async () => {
    const { clock, p, d, go } = await whileReading();
    clock.advance(LEASE_MS);
    const wait = watch(p.worker.waitForChange(new AbortController().signal));
    await turns();
    expect(wait.over).toBe(false);
    d.transport.close();
    await go();
    expect(wait.over).toBe(true);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });
});
