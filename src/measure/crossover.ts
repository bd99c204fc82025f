/**
 * Finds the number of tokens from which pulling wins, with an interval, from times of pull and recompute at several lengths,
 * measured in alternating rounds. Interpolates linearly between lengths; the interval is a bootstrap over rounds.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { seededGenerator } from '../seeded.ts';
import { type Compared, SINGLE_NOISE, within } from './outcome.ts';
import { median, quantile } from './statistics.ts';

/** One length. Milliseconds per round; entry i of both was measured in round i. */
export interface CurvePoint {
  tokens: number;
  pullMs: readonly number[];
  recomputeMs: readonly number[];
}

export type Crossover =
  /** Tokens from which pulling wins. low, high: 95% interval; null if beyond the measured lengths, or with a single round. */
  | { kind: 'crosses'; tokens: number; low: number | null; high: number | null }
  | { kind: 'pull_always_wins' }
  | { kind: 'pull_always_loses' };

const RESAMPLES = 1000;

/** Needs at least one point; every point needs at least one round. The same seed gives the same interval. */
export function crossover(points: readonly CurvePoint[], seed = 0): Crossover {
  const sorted = points.toSorted((a, b) => a.tokens - b.tokens);
  const tokens = sorted.map((point) => point.tokens);
  const found = zero(
    tokens,
    sorted.map((point) => median(point.recomputeMs) - median(point.pullMs)),
  );
  if (found === Number.NEGATIVE_INFINITY) return { kind: 'pull_always_wins' };
  if (found === Number.POSITIVE_INFINITY) return { kind: 'pull_always_loses' };
  // A bootstrap over a single round would give an interval of width 0.
  if (isOneRound(sorted)) return { kind: 'crosses', tokens: found, low: null, high: null };

  const random = seededGenerator(seed);
  const zeros = Array.from({ length: RESAMPLES }, () =>
    zero(
      tokens,
      sorted.map((point) => {
        const { pullMs, recomputeMs } = drawn(point, random);
        return recomputeMs - pullMs;
      }),
    ),
  ).sort((a, b) => a - b);
  // An order statistic without interpolation, because values may lie beyond the measured lengths.
  const at = (q: number): number | null => {
    const value = zeros[Math.round(q * (RESAMPLES - 1))]!;
    return Number.isFinite(value) ? value : null;
  };
  return { kind: 'crosses', tokens: found, low: at(0.025), high: at(0.975) };
}

const isOneRound = (points: readonly CurvePoint[]): boolean =>
  points.every(({ pullMs }) => pullMs.length === 1);

/** Ratio of the medians of recompute and pull, with a bootstrap interval over rounds. */
export function recomputeOverPull(point: CurvePoint, seed = 0): Compared {
  const { pullMs, recomputeMs } = point;
  const ratio = median(recomputeMs) / median(pullMs);
  // A single round says nothing about the spread.
  if (pullMs.length === 1) return within(ratio, SINGLE_NOISE);
  const random = seededGenerator(seed);
  const ratios = Array.from({ length: RESAMPLES }, () => {
    const resampled = drawn(point, random);
    return resampled.recomputeMs / resampled.pullMs;
  });
  return { ratio, low: quantile(ratios, 0.025), high: quantile(ratios, 0.975) };
}

/** Medians of a bootstrap sample of the rounds. */
function drawn(
  { pullMs, recomputeMs }: CurvePoint,
  random: RandomGenerator,
): { pullMs: number; recomputeMs: number } {
  const rounds = pullMs.map(() => uniformInt(random, 0, pullMs.length - 1));
  const pick = (all: readonly number[]) => median(rounds.map((round) => all[round]!));
  return { pullMs: pick(pullMs), recomputeMs: pick(recomputeMs) };
}

/**
 * The length that best separates losing from winning, with the fewest milliseconds on the wrong side (with noise the curves
 * may cross more than once). -Infinity: pulling should always be done; Infinity: never.
 */
function zero(tokens: readonly number[], lead: readonly number[]): number {
  const wrong = (split: number): number =>
    lead.reduce((sum, ms, i) => sum + Math.max(0, i < split ? ms : -ms), 0);
  let best = 0;
  for (let split = 1; split <= lead.length; split++) if (wrong(split) < wrong(best)) best = split;
  if (best === 0) return Number.NEGATIVE_INFINITY;
  if (best === lead.length) return Number.POSITIVE_INFINITY;
  const [before, after] = [lead[best - 1]!, lead[best]!];
  const share = after === before ? 0.5 : -before / (after - before);
  return tokens[best - 1]! + (tokens[best]! - tokens[best - 1]!) * Math.min(1, Math.max(0, share));
}

export interface ThresholdCost {
  /** Infinity: never pull. */
  threshold: number;
  /** Sum over the lengths of the medians that the rule chooses. */
  totalMs: number;
  /** Excess over choosing the better of both at each length. */
  regretMs: number;
}

/** The cost of vLLM's rule (pull from `threshold` tokens up) over these lengths, once each. */
export function thresholdCost(points: readonly CurvePoint[], threshold: number): ThresholdCost {
  let totalMs = 0;
  let bestMs = 0;
  for (const { tokens, pullMs, recomputeMs } of points) {
    const pull = median(pullMs);
    const recompute = median(recomputeMs);
    totalMs += tokens >= threshold ? pull : recompute;
    bestMs += Math.min(pull, recompute);
  }
  return { threshold, totalMs, regretMs: totalMs - bestMs };
}
