/** From a sweep's points: where pulling begins to win, and what a threshold costs. No DOM. */
import type { Crossover } from '../../../../src/recording/experiments.ts';
import { sumOf } from '../../../../src/sum.ts';

/** The time to get the KV of this many tokens either way, milliseconds. */
export interface CrossoverPoint {
  tokens: number;
  pullMs: number;
  recomputeMs: number;
}

/** How far a sweep is: how many passes it makes depends on how long they take, so `total` grows with each. */
export function passInWords({ done, total, points }: Pick<Crossover, 'done' | 'total' | 'points'>): string {
  const turns = 2 * points.length;
  const pass = total / turns;
  return `Measuring: pass ${pass}, ${done - (pass - 1) * turns} of ${turns}`;
}

/** vLLM's rule: pull when at least `threshold` tokens would come. */
const choice = (tokens: number, threshold: number): 'pull' | 'recompute' =>
  tokens >= threshold ? 'pull' : 'recompute';

/** Milliseconds that the threshold's choice loses against the faster way; 0 if it chose the faster way. */
export function regretMs(point: CrossoverPoint, threshold: number): number {
  const chosen = choice(point.tokens, threshold) === 'pull' ? point.pullMs : point.recomputeMs;
  return chosen - Math.min(point.pullMs, point.recomputeMs);
}

export const totalRegretMs = (points: readonly CrossoverPoint[], threshold: number): number =>
  sumOf(points, (point) => regretMs(point, threshold));

/**
 * The number of tokens from which pulling is faster, by linear interpolation between the points. 'never': pulling is not
 * faster at the longest point. 'always': it is faster at every point. With several crossings the last one counts.
 */
export function crossover(points: readonly CrossoverPoint[]): number | 'always' | 'never' | null {
  const sorted = [...points].sort((a, b) => a.tokens - b.tokens);
  if (sorted.length === 0) return null;
  const lead = sorted.map(({ pullMs, recomputeMs }) => recomputeMs - pullMs);
  if (lead.at(-1)! <= 0) return 'never';
  let last = lead.length - 1;
  while (last > 0 && lead[last - 1]! > 0) last--;
  if (last === 0) return 'always';
  const [before, after] = [lead[last - 1]!, lead[last]!];
  const [from, to] = [sorted[last - 1]!.tokens, sorted[last]!.tokens];
  return from + ((to - from) * -before) / (after - before);
}

/** The smallest threshold with the least regret, among 0, the points' tokens, and one above the largest. */
export function bestThreshold(points: readonly CrossoverPoint[]): number | null {
  if (points.length === 0) return null;
  const tokens = points.map((point) => point.tokens).sort((a, b) => a - b);
  const candidates = [0, ...tokens, tokens.at(-1)! + 1];
  return candidates.reduce((best, candidate) =>
    totalRegretMs(points, candidate) < totalRegretMs(points, best) ? candidate : best,
  );
}

/** Both lines at one length, milliseconds: a is pull, b is recompute. */
export interface Corner {
  at: number;
  a: number;
  b: number;
}

/** The parts between two lengths in which the chosen way is the slower one. */
export function regretPieces(from: Corner, to: Corner, threshold: number): [Corner, Corner][] {
  const cuts = [from.at, to.at];
  const lead = [from.b - from.a, to.b - to.a] as const;
  if (lead[0] * lead[1] < 0) cuts.push(from.at + ((to.at - from.at) * lead[0]) / (lead[0] - lead[1]));
  if (threshold > from.at && threshold < to.at) cuts.push(threshold);
  cuts.sort((one, two) => one - two);
  const cornerAt = (at: number): Corner => {
    const share = (at - from.at) / (to.at - from.at);
    return { at, a: from.a + (to.a - from.a) * share, b: from.b + (to.b - from.b) * share };
  };
  return cuts.slice(1).flatMap((end, i): [Corner, Corner][] => {
    const [start, stop] = [cornerAt(cuts[i]!), cornerAt(end)];
    const middle = cornerAt((start.at + stop.at) / 2);
    const slower = choice(middle.at, threshold) === 'pull' ? middle.a > middle.b : middle.b > middle.a;
    return slower && stop.at > start.at ? [[start, stop]] : [];
  });
}
