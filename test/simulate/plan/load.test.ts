/** The arrivals of a planned load. */
import { describe, expect, it } from 'vitest';
import { poissonArrivals } from '../../../src/simulate/load/load.ts';
import { conversationLoad } from '../../../src/simulate/plan/load.ts';
import type { BenchConversation } from '../../../src/workload/types.ts';
import { NOTHING_DRAWN, regularUsers } from './planned.ts';

const turn = { content: { kind: 'tokens' as const, tokenIds: [8] }, inputTokens: 1, outputTokens: 1 };
const conversations = Array.from(
  { length: 400 },
  (_, i): BenchConversation => ({ id: `c${i}`, turns: Array.from({ length: 1 + (i % 5) }, () => turn) }),
);
const load = conversationLoad(conversations, 0);

function arrived(perSecond: number, draws: Parameters<typeof load.sample>[2], requests = 600) {
  const sample = load.sample(requests, perSecond, draws);
  if (sample.kind !== 'arrivals') throw new TypeError(`a load of ${sample.kind}`);
  return Array.from({ length: draws.seeds }, (_, i) => [...sample.arrivals(draws.seed + i)]);
}

describe('drawn arrivals', () => {
  it.each([
    { seed: 0, seeds: 1, countsFrom: 0.2 },
    { seed: 7, seeds: 1, countsFrom: 0.75 },
    { seed: 3, seeds: 4, countsFrom: 0.2 },
  ])('come at exactly the asked rate in the time that counts: %o', (draws) => {
    let [turns, seconds] = [0, 0];
    for (const times of arrived(20, draws)) {
      const { atMs: lastMs } = times.at(-1)!;
      seconds += ((1 - draws.countsFrom) * lastMs) / 1000;
      for (const { atMs, conversation } of times)
        if (atMs === lastMs) turns++;
        else if (atMs >= draws.countsFrom * lastMs) turns += conversation.turns.length;
    }
    expect(turns / seconds).toBeCloseTo(20, 9);
  });

  it('are the same at every rate, only closer, and those that simulate draws at the rate of the plan', () => {
    const draws = { seed: 5, seeds: 1, countsFrom: 0.2 };
    const [slow, fast] = [10, 30].map((rate) => arrived(rate, draws)[0]!);
    expect(fast!.map(({ atMs }) => (3 * atMs).toFixed(3))).toEqual(slow!.map(({ atMs }) => atMs.toFixed(3)));
    const asked = load.arrivalsOf(600, 10, draws);
    expect([...poissonArrivals(conversations, { ...asked, seed: 5 })]).toEqual(slow);
  });
});

describe("a trace's own rate", () => {
  it('is that of all its requests over all its time, though most of them wait for an answer', () => {
    const { ownRate, sample } = regularUsers(20, 60, 60_000);
    expect(ownRate).toBeCloseTo((20 * 60) / (19 + 59 * 60), 9);
    const faster = sample(1200, 2 * ownRate!, NOTHING_DRAWN);
    if (faster.kind !== 'trace') throw new TypeError(`a load of ${faster.kind}`);
    expect(faster.turns[20]!.arrival).toEqual({ kind: 'after', index: 0, thinkMs: 30_000 });
  });
});
