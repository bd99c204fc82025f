import { expect, it } from 'vitest';
import type { Collector } from '../../src/simulate/collector.ts';
import { verdictOf } from '../../src/simulate/verdict.ts';

/** Conversations that come ten a second for ten seconds, each of turns that follow one another, `latency` each. */
function collected(turns: number, latency: (startMs: number) => number): Collector {
  const startMs: number[] = [];
  const latencyMs: number[] = [];
  for (let cameMs = 0; cameMs < 10_000; cameMs += 100) {
    for (let turn = 0, at = cameMs; turn < turns; turn++) {
      startMs.push(at);
      latencyMs.push(latency(at));
      at += latencyMs.at(-1)!;
    }
  }
  const columns: Record<string, Float64Array> = {
    startMs: Float64Array.from(startMs),
    latencyMs: Float64Array.from(latencyMs),
  };
  return {
    column: (name: string) => columns[name]!,
    conversations: { came: 100, openAtLast: 0, lastMs: 10_000 },
    lastEndMs: 20_000,
  } as unknown as Collector;
}

it('a fleet that fills is not one that is overloaded: each takes as long as those before', () => {
  // Eight seconds each, so that ever more are under way until the last comes.
  expect(verdictOf(collected(8, () => 1000))).toMatchObject({ growth: 0, word: 'STABLE' });
});

it('where more are under way and each takes longer, there is a backlog', () => {
  expect(verdictOf(collected(8, (startMs) => 1000 + startMs / 4))).toMatchObject({ word: 'BACKLOGGED' });
});
