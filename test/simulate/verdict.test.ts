import { describe, expect, it } from 'vitest';
import type { Collector } from '../../src/simulate/results/collector.ts';
import { verdictOf } from '../../src/simulate/results/verdict.ts';

type MsOf = (startMs: number, turn: number, conversation: number) => number;

/**
 * Conversations that arrive ten a second for `overMs`, each of `turns` turns that follow one another.
 * TTFT is the latency unless given.
 */
function collected(turns: number, latency: MsOf, overMs = 10_000, ttft: MsOf = latency): Collector {
  const columns: Record<string, number[]> = { startMs: [], latencyMs: [], ttftMs: [], turn: [] };
  let [arrived, openAtLast, stayedMs] = [0, 0, 0];
  for (let cameMs = 0; cameMs < overMs; cameMs += 100) {
    let at = cameMs;
    for (let turn = 1; turn <= turns; turn++) {
      const latencyMs = latency(at, turn, arrived);
      const row = { startMs: at, turn, latencyMs, ttftMs: ttft(at, turn, arrived) };
      for (const [name, value] of Object.entries(row)) columns[name]!.push(value);
      at += latencyMs;
    }
    arrived++;
    stayedMs += at - cameMs;
    if (at >= overMs) openAtLast++;
  }
  return {
    column: (name: string) => Float64Array.from(columns[name]!),
    conversations: { arrived, openAtLast, lastMs: overMs },
    lastEndMs: 2 * overMs,
    stayMs: stayedMs / arrived,
  } as unknown as Collector;
}

it('a fleet that is filling up is STABLE if latencies do not grow', () => {
  // Eight seconds each, so that ever more are in progress until the last arrives.
  expect(verdictOf(collected(8, () => 1000))).toMatchObject({ growth: 0, word: 'STABLE' });
});

it('growing latencies are a backlog, OVERLOADED if many conversations are open at the last arrival', () => {
  expect(verdictOf(collected(8, (startMs) => 1000 + startMs / 4))).toMatchObject({ word: 'OVERLOADED' });
  expect(verdictOf(collected(1, (startMs) => 100 + startMs / 8))).toMatchObject({ word: 'BACKLOGGED' });
});

it('a queue as long as a quarter of the run is a backlog, also where its growth is not told from chance', () => {
  // Turns wait ever longer, but by chance the first ones of the last half do not.
  const waits: MsOf = (startMs, turn) => (turn === 1 && startMs > 6000 ? 1500 : 100 + startMs / 2);
  expect(verdictOf(collected(8, waits))).toMatchObject({ word: 'OVERLOADED' });
  const shorter: MsOf = (startMs, turn) => waits(startMs, turn, 0) / 3;
  expect(verdictOf(collected(8, shorter))).toMatchObject({ growth: 0 });
});

it('growing latencies are no backlog if TTFT does not grow', () => {
  const latency = (startMs: number) => 1000 + startMs / 4;
  expect(verdictOf(collected(8, latency, 10_000, () => 100))).toMatchObject({ growth: 0, word: 'STABLE' });
  const hardly = collected(8, latency, 10_000, (startMs) => 100 + startMs / 500);
  expect(verdictOf(hardly)).toMatchObject({ growth: 0 });
  const waits = collected(8, latency, 10_000, (startMs) => 100 + startMs / 8);
  expect(verdictOf(waits)).toMatchObject({ word: 'OVERLOADED' });
});

it('growth is measured after the fleet has filled up, if that time is known', () => {
  // Waits grow for two thirds of the time, then stay the same.
  const latency = (startMs: number) => 100 + Math.min(startMs, 7000) / 4;
  expect(verdictOf(collected(1, latency)).growth).toBeGreaterThan(0.3);
  expect(verdictOf(collected(1, latency), { filledMs: 7000 })).toMatchObject({ growth: 0 });
});

it('a load that rises and falls is no backlog if the second half happens to have more rises', () => {
  // Each fifteenth of the run is fast or slow as a whole, so many requests are few independent samples.
  const slow = [0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1];
  const wave = (startMs: number) => (slow[Math.floor((15 * startMs) / 30_000)] ? 1400 : 1000);
  expect(verdictOf(collected(1, wave, 30_000))).toMatchObject({ growth: 0, word: 'STABLE' });
});

it('a queue that is gone by the end is no backlog', () => {
  // The load peaks in the last third, and its requests take two seconds.
  const wave = (startMs: number) => (startMs > 20_000 && startMs < 26_000 ? 2000 : 1000);
  expect(verdictOf(collected(1, wave, 30_000))).toMatchObject({ growth: 0, word: 'STABLE' });
  const stays = (startMs: number) => (startMs > 20_000 ? 2000 : 1000);
  expect(verdictOf(collected(1, stays, 30_000))).toMatchObject({ word: 'BACKLOGGED' });
});

it('a filled fleet is judged by TTFT if conversations stay for most of the judged time', () => {
  // They stay for three seconds and more. Two seconds are judged, in which answers get longer.
  const latency = (startMs: number) => 1000 + Math.max(0, startMs - 7000) / 5;
  const filled = { filledMs: 8000 };
  expect(
    verdictOf(
      collected(3, latency, 10_000, () => 100),
      filled,
    ),
  ).toMatchObject({ growth: 0, word: 'STABLE' });
  expect(
    verdictOf(
      collected(3, latency, 10_000, (at) => at - 7900),
      filled,
    ).growth,
  ).toBeGreaterThan(0);
});

describe('a short run', () => {
  it('has no backlog if only later turns take longer, not first turns', () => {
    // Nearly all of a second's conversations are still there, in turns that get longer, when the last one arrives.
    const short = collected(4, (_at, turn) => 200 * turn, 1000);
    expect(verdictOf(short)).toMatchObject({ growth: 0, unfinished: 1, word: 'STABLE' });
  });

  it('has no backlog if a few requests are slow by chance, but has one if each is slower', () => {
    // Of nine, the last third happens to be slower, as far as so few can show.
    const chance = [300, 900, 400, 200, 900, 300, 900, 300, 800];
    expect(verdictOf(collected(1, (_at, _turn, i) => chance[i]!, 900))).toMatchObject({ word: 'STABLE' });
    const growing = collected(1, (_at, _turn, i) => 300 + 100 * i, 3000);
    expect(verdictOf(growing)).toMatchObject({ word: 'OVERLOADED' });
  });

  it('has no backlog if first tokens take longer by less than an idle turn takes while the fleet fills', () => {
    const ttft = (growth: number) =>
      collected(
        8,
        () => 500,
        1000,
        (startMs) => 26 + growth * startMs,
      );
    expect(verdictOf(ttft(0.02))).toMatchObject({ growth: 0, word: 'STABLE' });
    expect(verdictOf(ttft(0.2))).toMatchObject({ word: 'OVERLOADED' });
  });

  it('of two or three requests has no growth', () => {
    expect(verdictOf(collected(1, (startMs) => 100 + 9 * startMs, 300))).toMatchObject({ growth: 0 });
  });
});
