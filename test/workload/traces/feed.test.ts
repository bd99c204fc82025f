import { describe, expect, it } from 'vitest';
import { BadLines } from '../../../src/workload/traces/bad-lines.ts';
import { TraceFeed } from '../../../src/workload/traces/feed.ts';
import { traceTurns } from '../../../src/workload/traces/turns.ts';
import type { TraceRequest } from '../../../src/workload/traces/types.ts';
import { request, UNSCALED } from './sample-trace.ts';

async function* stream<T>(items: readonly T[], onRead: () => void = () => {}) {
  for (const item of items) {
    onRead();
    yield item;
  }
}

const turns = (requests: readonly TraceRequest[], onRead?: () => void) =>
  traceTurns(stream(requests, onRead), {
    scale: UNSCALED,
    maxModelLen: null,
    bad: new BadLines('made', false),
  });

const session = (id: string, delayMs: number | null = null): TraceRequest['origin'] => ({
  kind: 'session',
  id,
  delayMs,
});

/** Serves each turn for `serviceMs`; returns when each began. */
async function serve(requests: readonly TraceRequest[], serviceMs: number, lookAhead = 4096, late = 0) {
  const feed = new TraceFeed(turns(requests), lookAhead);
  const begun: [index: number, atMs: number][] = [];
  for (;;) {
    await feed.fill();
    const due = feed.next();
    if (!due) break;
    begun.push([due.turn.index, due.atMs]);
    feed.ended(due.turn.index, due.atMs + serviceMs);
  }
  expect([feed.finished, feed.late]).toEqual([true, late]);
  return begun;
}

describe('a trace feed', () => {
  it('gives turns at their own times, and follow-ups after the last token and the think time', async () => {
    const requests = [
      request(0, { arrivalMs: 0, origin: session('a') }),
      request(1, { arrivalMs: 100, origin: session('b') }),
      request(2, { arrivalMs: 500, origin: session('a') }),
      request(3, { arrivalMs: 700, origin: session('c') }),
    ];
    expect(await serve(requests, 300)).toEqual([
      [0, 0],
      [1, 100],
      [3, 700],
      [2, 800],
    ]);
  });

  it('finds a turn that is due soon, though it is far behind in the file', async () => {
    const requests = [
      request(0, { arrivalMs: 0, origin: session('a') }),
      request(1, { arrivalMs: 9000, origin: session('b') }),
      request(2, { arrivalMs: null, origin: session('a', 50) }),
    ];
    expect(await serve(requests, 10)).toEqual([
      [0, 0],
      [2, 60],
      [1, 9000],
    ]);
  });

  it('gives a turn at once if it was read after its time, and counts it', async () => {
    const requests = [
      request(0, { arrivalMs: 0, origin: session('a') }),
      request(1, { arrivalMs: 9000, origin: session('b') }),
      request(2, { arrivalMs: null, origin: session('a', 50) }),
    ];
    expect(await serve(requests, 10, 1, 1)).toEqual([
      [0, 0],
      [1, 9000],
      [2, 60],
    ]);
  });

  it('does not count a turn that was read in time, though its predecessor was over', async () => {
    const requests = [
      request(0, { arrivalMs: 0, origin: session('a') }),
      request(1, { arrivalMs: 9000, origin: session('b') }),
      request(2, { arrivalMs: null, origin: session('a', 9000) }),
    ];
    expect(await serve(requests, 10, 1)).toEqual([
      [0, 0],
      [1, 9000],
      [2, 9010],
    ]);
  });

  it('gives no follow-up while its predecessor is in flight, and is over only after the last', async () => {
    const feed = new TraceFeed(
      turns([request(0, { origin: session('a') }), request(1, { origin: session('a') })]),
    );
    await feed.fill();
    expect(feed.next()?.turn.index).toBe(0);
    expect([feed.nextMs, feed.next(), feed.finished]).toEqual([null, null, false]);
    feed.ended(0, 5000);
    expect(feed.nextMs).toBe(6000);
    feed.next();
    feed.ended(1, 7000);
    expect(feed.finished).toBe(true);
  });

  it('reads ahead no further than its limit', async () => {
    let read = 0;
    const requests = Array.from({ length: 1000 }, (_, index) => request(index, {}));
    const feed = new TraceFeed(
      turns(requests, () => read++),
      10,
    );
    for (let served = 0; served < 100; served++) {
      await feed.fill();
      const { turn, atMs } = feed.next()!;
      expect([turn.index, atMs]).toEqual([served, 1000 * served]);
      feed.ended(turn.index, atMs);
      expect(read).toBeLessThanOrEqual(served + 11);
    }
  });
});
