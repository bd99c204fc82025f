import { describe, expect, it } from 'vitest';
import type { Collector } from '../../src/simulate/collector.ts';
import { verdictOf } from '../../src/simulate/verdict.ts';

type MsOf = (startMs: number, turn: number, conversation: number) => number;

/**
 * Conversations that come ten a second, for ten seconds where nobody says how long, each of turns that follow one another.
 * First tokens are the last ones where nobody says more.
 */
function collected(turns: number, latency: MsOf, overMs = 10_000, ttft: MsOf = latency): Collector {
  const columns: Record<string, number[]> = { startMs: [], latencyMs: [], ttftMs: [], turn: [] };
  let [came, openAtLast, stayedMs] = [0, 0, 0];
  for (let cameMs = 0; cameMs < overMs; cameMs += 100) {
    let at = cameMs;
    for (let turn = 1; turn <= turns; turn++) {
      const latencyMs = latency(at, turn, came);
      const row = { startMs: at, turn, latencyMs, ttftMs: ttft(at, turn, came) };
      for (const [name, value] of Object.entries(row)) columns[name]!.push(value);
      at += latencyMs;
    }
    came++;
    stayedMs += at - cameMs;
    if (at >= overMs) openAtLast++;
  }
  return {
    column: (name: string) => Float64Array.from(columns[name]!),
    conversations: { came, openAtLast, lastMs: overMs },
    lastEndMs: 2 * overMs,
    stayMs: stayedMs / came,
  } as unknown as Collector;
}

it('a fleet that fills is not one that is overloaded: each takes as long as those before', () => {
  // Eight seconds each, so that ever more are under way until the last comes.
  expect(verdictOf(collected(8, () => 1000))).toMatchObject({ growth: 0, word: 'STABLE' });
});

it('where more are under way and each takes longer, there is a backlog', () => {
  expect(verdictOf(collected(8, (startMs) => 1000 + startMs / 4))).toMatchObject({ word: 'OVERLOADED' });
  expect(verdictOf(collected(1, (startMs) => 100 + startMs / 8))).toMatchObject({ word: 'BACKLOGGED' });
});

it('while those who stay long gather answers get longer, and nothing waits: told by first tokens', () => {
  const latency = (startMs: number) => 1000 + startMs / 4;
  expect(verdictOf(collected(8, latency, 10_000, () => 100))).toMatchObject({ growth: 0, word: 'STABLE' });
  const hardly = collected(8, latency, 10_000, (startMs) => 100 + startMs / 500);
  expect(verdictOf(hardly)).toMatchObject({ growth: 0 });
  const waits = collected(8, latency, 10_000, (startMs) => 100 + startMs / 8);
  expect(verdictOf(waits)).toMatchObject({ word: 'OVERLOADED' });
});

it('compares what came after the fleet had filled, where that is known', () => {
  // For two thirds of the time ever more wait, then no more.
  const latency = (startMs: number) => 100 + Math.min(startMs, 7000) / 4;
  expect(verdictOf(collected(1, latency)).growth).toBeGreaterThan(0.3);
  expect(verdictOf(collected(1, latency), { filledMs: 7000 })).toMatchObject({ growth: 0 });
});

describe('a run that is shorter than what it is asked', () => {
  it('later turns take longer by themselves: where first turns do not, there is no backlog', () => {
    // All but the first of a second are still there, in turns that get longer, when the last one comes.
    const short = collected(4, (_at, turn) => 200 * turn, 1000);
    expect(verdictOf(short)).toMatchObject({ growth: 0, unfinished: 1, word: 'STABLE' });
  });

  it('a few that are longer than others by chance are no backlog, many that are longer each time are', () => {
    // Of nine, the last third happens to be longer, as far as that can be told of so few.
    const chance = [300, 900, 400, 200, 900, 300, 900, 300, 800];
    expect(verdictOf(collected(1, (_at, _turn, i) => chance[i]!, 900))).toMatchObject({ word: 'STABLE' });
    const growing = collected(1, (_at, _turn, i) => 300 + 100 * i, 3000);
    expect(verdictOf(growing)).toMatchObject({ word: 'OVERLOADED' });
  });

  it('of two or three nothing is told', () => {
    expect(verdictOf(collected(1, (startMs) => 100 + 9 * startMs, 300))).toMatchObject({ growth: 0 });
  });
});
