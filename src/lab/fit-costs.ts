/**
 * Fits costs to measured points: of a pull (fixed, per byte) and of prefill (fixed, per token, per token and context). Derives
 * recommended thresholds and their regret.
 */
import type { CostProfile } from '../config/cost-profile.ts';
import { kvBytesOf, tokenContext } from '../connector/policy/cost-model.ts';
import { type Fit, fitNonNegative } from '../measure/least-squares.ts';
import { sumOf } from '../sum.ts';
import type { SweepSample, SweepSeries } from './sweep.ts';

export interface FittedCosts {
  pull: CostProfile['pull'];
  prefill: CostProfile['prefill'];
  ttft: Fit;
  transfer: Fit;
  samples: number;
}

/**
 * First fits the transfer's wall time to its bytes. Then fits TTFT less that time to the computed tokens, their context, and
 * whether there was a pull.
 */
export function fitCosts(series: readonly SweepSeries[]): FittedCosts {
  const samples = series.flatMap(({ points }) =>
    points.flatMap((point) => [...point.samples.pull, ...point.samples.recompute]),
  );
  const pulled = samples.flatMap(({ transfer }) => (transfer ? [transfer] : []));
  const transfer = fitNonNegative(
    pulled.map(({ bytes }) => [1, bytes]),
    pulled.map(({ ms }) => ms),
  );
  const ttft = fitNonNegative(
    samples.map(features),
    samples.map((sample) => Math.max(1e-3, sample.ttftMs - (sample.transfer?.ms ?? 0))),
  );
  const [fixedMs, msPerByte] = transfer.coefficients as [number, number];
  const [turnMs, msPerToken, msPerTokenContext, overheadMs] = ttft.coefficients as [
    number,
    number,
    number,
    number,
  ];
  return {
    pull: { overhead_ms: overheadMs, fixed_ms: fixedMs, ms_per_byte: msPerByte },
    prefill: { fixed_ms: turnMs, ms_per_token: msPerToken, ms_per_token_context: msPerTokenContext },
    ttft,
    transfer,
    samples: samples.length,
  };
}

function features({ localHitTokens, pulledTokens, computedTokens }: SweepSample): number[] {
  const context = tokenContext(localHitTokens + pulledTokens, computedTokens);
  return [1, computedTokens, context, pulledTokens > 0 ? 1 : 0];
}

/** The part of a profile that predictions use. */
export type PredictingCosts = Pick<
  CostProfile,
  'pull' | 'prefill' | 'block_size' | 'block_bytes' | 'kv_cache_groups'
>;

/** TTFT in milliseconds, pulling or recomputing, if D has `count` tokens that P lacks, and `newTokens` follow them. */
export function predictTtft(
  profile: PredictingCosts,
  count: number,
  newTokens: number,
): { pullMs: number; recomputeMs: number } {
  const { pull, prefill, block_size, block_bytes, kv_cache_groups } = profile;
  const compute = (start: number, tokens: number): number =>
    prefill.fixed_ms +
    prefill.ms_per_token * tokens +
    prefill.ms_per_token_context * tokenContext(start, tokens);
  const bytes = kvBytesOf(block_size, block_bytes, kv_cache_groups)(0, count);
  return {
    pullMs: compute(count, newTokens) + pull.overhead_ms + pull.fixed_ms + pull.ms_per_byte * bytes,
    recomputeMs: compute(0, count + newTokens),
  };
}

/** Tokens that the user adds in a measured or predicted turn. */
export const NEW_TOKENS = 16;
/** Tokens that a predicted turn computes in any case: the new ones, and D's last token, which has no KV. */
export const COMPUTED_TOKENS = NEW_TOKENS + 1;
const GRID = 200;

/** `points` lengths from least to most, evenly spaced on a logarithmic scale. */
export const logGrid = (least: number, most: number, points: number): number[] =>
  Array.from({ length: points }, (_, i) =>
    Math.round(least * (most / least) ** (points === 1 ? 0 : i / (points - 1))),
  );

/**
 * The lowest threshold, in tokens, from which pulling is predicted to be faster for all lengths up to `mostTokens`; 0: for
 * all lengths; null: for none.
 */
export function recommendThreshold(profile: PredictingCosts, mostTokens: number): number | null {
  let threshold: number | null = null;
  for (let count = mostTokens; count >= 1; count--) {
    const { pullMs, recomputeMs } = predictTtft(profile, count, COMPUTED_TOKENS);
    if (pullMs > recomputeMs) break;
    threshold = count;
  }
  return threshold === 1 ? 0 : threshold;
}

export interface ExpectedRegret {
  /** null: never pull. */
  threshold: number | null;
  /** Milliseconds per turn in excess of the better choice. */
  regretMs: number;
  /** The regret as a share of the better choice's TTFT. */
  regretShare: number;
}

/** Averages over turns whose reusable tokens go from least to most, evenly on a logarithmic scale. */
export function expectedRegret(
  profile: PredictingCosts,
  thresholds: readonly (number | null)[],
  least: number,
  most: number,
): ExpectedRegret[] {
  const turns = logGrid(least, most, GRID).map((count) => ({
    count,
    ...predictTtft(profile, count, COMPUTED_TOKENS),
  }));
  const best = sumOf(turns, (turn) => Math.min(turn.pullMs, turn.recomputeMs));
  return thresholds.map((threshold) => {
    const total = sumOf(turns, (turn) =>
      threshold !== null && turn.count >= threshold ? turn.pullMs : turn.recomputeMs,
    );
    return { threshold, regretMs: (total - best) / turns.length, regretShare: (total - best) / best };
  });
}
