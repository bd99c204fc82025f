/** What a sweep's points say: where pulling begins to win, and what a threshold costs. No DOM. */

/** One length: what it takes to get so many tokens' KV either way. Milliseconds. */
export interface CrossoverPoint {
  tokens: number;
  pullMs: number;
  recomputeMs: number;
}

/** vLLM's rule: pull when at least `threshold` tokens would come. */
export const choice = (tokens: number, threshold: number): 'pull' | 'recompute' =>
  tokens >= threshold ? 'pull' : 'recompute';

/** Milliseconds lost by the threshold's choice against the better one; 0 when it chose right. */
export function regretMs(point: CrossoverPoint, threshold: number): number {
  const chosen = choice(point.tokens, threshold) === 'pull' ? point.pullMs : point.recomputeMs;
  return chosen - Math.min(point.pullMs, point.recomputeMs);
}

export const totalRegretMs = (points: readonly CrossoverPoint[], threshold: number): number =>
  points.reduce((sum, point) => sum + regretMs(point, threshold), 0);

/**
 * Tokens from which pulling is the faster, by straight lines between the points. 'never': it loses at every point.
 * 'always': it wins at every point. With several crossings the last one counts.
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

/** The threshold with the least regret over the points: the smallest such, among 0, the points' tokens and one more. */
export function bestThreshold(points: readonly CrossoverPoint[]): number | null {
  if (points.length === 0) return null;
  const tokens = points.map((point) => point.tokens).sort((a, b) => a - b);
  const candidates = [0, ...tokens, tokens.at(-1)! + 1];
  return candidates.reduce((best, candidate) =>
    totalRegretMs(points, candidate) < totalRegretMs(points, best) ? candidate : best,
  );
}

/** Value of a line through points at x, straight between them, null outside. */
export function valueAt(xs: readonly number[], ys: readonly number[], x: number): number | null {
  const after = xs.findIndex((known) => known >= x);
  if (after === -1) return null;
  if (xs[after] === x) return ys[after]!;
  if (after === 0) return null;
  const [x0, x1, y0, y1] = [xs[after - 1]!, xs[after]!, ys[after - 1]!, ys[after]!];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}
