/** Summaries of samples. Quantiles interpolate linearly between order statistics, as pandas and NumPy do by default. */
import { mean } from 'simple-statistics';

export interface Summary {
  mean: number;
  p50: number;
  p90: number;
  max: number;
}

/** The q-quantile, q from 0 to 1, of at least one sample in any order. */
export function quantile(samples: readonly number[], q: number): number {
  if (samples.length === 0) throw new RangeError('a quantile needs at least one sample');
  const sorted = samples.toSorted((a, b) => a - b);
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (position - below);
}

/** null without samples. */
export function summarise(samples: readonly number[]): Summary | null {
  if (samples.length === 0) return null;
  return {
    mean: mean([...samples]),
    p50: quantile(samples, 0.5),
    p90: quantile(samples, 0.9),
    max: Math.max(...samples),
  };
}
