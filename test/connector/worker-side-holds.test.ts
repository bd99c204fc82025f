/** What the worker side keeps for readers, and until when: leases, TTLs, heartbeats, notifications, pins, pressure. */
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
  it('abort_timeout_on_prefiller: nobody reads, so the lease frees the blocks, once', () => {
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

  it('expiry sweeps all that are due, whatever came first', () => {
    const { clock, p } = makeNodes();
    hold(p, 'long', [1], ttl(clock));
    hold(p, 'short', [2], lease(clock));
    clock.advance(LEASE_MS);
    expect(p.worker.getFinished().finishedSending).toEqual(['short']);
    clock.advance(TTL_MS);
    expect(p.worker.getFinished().finishedSending).toEqual(['long']);
  });

  it('expiry and notification are idempotent: whichever comes first frees', async () => {
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

  it('a notification for an unknown request is ignored', async () => {
    const { p, d } = makeNodes();
    pull(d, p, 'nobody', []);
    await turns();
    expect(p.worker.getFinished()).toEqual(nothing);
  });

  it('a notification before the hold ends the hold as soon as it comes', async () => {
    const { clock, p, d } = makeNodes();
    const send = sends('r@prefill', [1], lease(clock));
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['r@prefill']) }));
    pull(d, p, 'r', []);
    await turns();
    expect(p.worker.getFinished()).toEqual(nothing);
    p.worker.startLoadKv(metadata({ reqsToSend: send }));
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('releaseHold ends it at once; unknown ids are no matter', async () => {
    const { clock, p, d } = makeNodes();
    hold(p, 'r@prefill', [1], lease(clock));
    p.worker.holds.release('nobody');
    p.worker.holds.release('r@prefill');
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
    pull(d, p, 'r', pairsOf([1], [1]));
    expect((await nextOutput(d)).failedRecving).toMatchObject([{ outcome: 'declined' }]);
  });
});

describe('the path of a request to its hold', () => {
  it('needs reqsInBatch: a hold that was never announced ends at once, its blocks do not leak', () => {
    const { clock, p } = makeNodes();
    p.worker.startLoadKv(metadata({ reqsToSend: sends('r', [1], lease(clock)) }));
    expect(p.worker.getFinished().finishedSending).toEqual(['r']);
    expect(p.worker.holds.list()).toEqual([]);
  });

  it('may begin and end in one metadata', () => {
    const { clock, p } = makeNodes();
    const send = sends('r', [1], lease(clock));
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['r']), reqsToSend: send }));
    expect(p.worker.holds.list()).toMatchObject([{ requestId: 'r', blockIds: [[1]], reading: false }]);
  });

  it('aborted_request_removed_from_worker_in_batch: reqsNotProcessed forgets it', () => {
    const { clock, p } = makeNodes();
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['r']) }));
    p.worker.startLoadKv(metadata({ reqsNotProcessed: new Set(['r']) }));
    expect(p.worker.getFinished()).toEqual(nothing);
    p.worker.startLoadKv(metadata({ reqsToSend: sends('r', [1], lease(clock)) }));
    expect(p.worker.holds.list()).toEqual([]);
  });

  it('cannot leave blocks and leave none', () => {
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

  it('extend a lease to max(old, now + two thirds), never shorten it', async () => {
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

  it('do not extend a decode hold: its TTL is plain', async () => {
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
  it('pins its blocks past expiry, and ends well', async () => {
    const { clock, p, d, go } = await whileReading();
    clock.advance(LEASE_MS * 2);
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(p.worker.holds.list()).toHaveLength(1);
    await go();
    expect((await nextOutput(d)).failedRecving).toEqual([]);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('past expiry lets nobody else begin', async () => {
    const { clock, p, d, go } = await whileReading();
    clock.advance(LEASE_MS);
    pull(d, p, 'late', pairsOf([1], [9]), { requestId: 'r@prefill' });
    expect((await nextOutput(d)).failedRecving).toMatchObject([{ requestId: 'late', outcome: 'expired' }]);
    await go();
  });

  it("is not disturbed by another reader's done_reading: that waits for it", async () => {
    const { p, d, go } = await whileReading();
    pull(d, p, 'other', [], { requestId: 'r@prefill' });
    await turns();
    expect(p.worker.getFinished()).toEqual(nothing);
    await go();
    expect((await nextOutput(d)).finishedRecving).toEqual(['r']);
    await turns();
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('is not disturbed by releaseHold, nor dropped under pressure', async () => {
    const { p, d, go } = await whileReading(ttl);
    expect(p.worker.holds.dropOldest('stuck')).toBeNull();
    p.worker.holds.release('r@prefill');
    expect(p.worker.getFinished()).toEqual(nothing);
    await go();
    expect((await nextOutput(d)).failedRecving).toEqual([]);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('once its hold is to end lets nobody else begin', async () => {
    const { p, d, go } = await whileReading(ttl);
    p.worker.holds.release('r@prefill');
    pull(d, p, 'late', pairsOf([1], [9]), { requestId: 'r@prefill' });
    expect((await nextOutput(d)).failedRecving).toMatchObject([{ requestId: 'late', outcome: 'declined' }]);
    await go();
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it("ends with its reader's engine, once the device has done what was submitted", async () => {
    const { p, d, go } = await whileReading();
    d.transport.close();
    await turns();
    expect(p.worker.holds.list()).toMatchObject([{ requestId: 'r@prefill', reading: true }]);
    await go();
    expect(p.worker.getFinished().finishedSending).toContain('r@prefill');
  });
});

describe('dropOldest', () => {
  it('drops the oldest of those for P; both pools can be full of holds for each other', async () => {
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

describe("a hold of P's that D does not come for", () => {
  it('may be dropped once two heartbeats are missing, and says so to who waits for room', async () => {
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

  it('stays while its reader is heard of', async () => {
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

it('who could have read a dropped hold is told so, however many others ended since', async () => {
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

  it('ends with a deadline, also one that moved', async () => {
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

  it('ends with news or with its signal, and not before', async () => {
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
    // The news is still there: nobody waits past it.
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
