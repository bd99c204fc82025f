/** Summaries of samples. Quantiles interpolate linearly between order statistics, as pandas and NumPy do by default. */
import { mean, sampleStandardDeviation } from 'simple-statistics';
import type { Described } from './schemas/bench-mode-schema.ts';
import type { Summary } from './schemas/report.ts';

/** The q-quantile, q from 0 to 1, of at least one sample in any order. */
export function quantile(samples: readonly number[], q: number): number {
  return sortedQuantile(
    samples.toSorted((a, b) => a - b),
    q,
  );
}

export const median = (samples: readonly number[]): number => quantile(samples, 0.5);

/** The same for sorted samples. */
export function sortedQuantile(sorted: ArrayLike<number>, q: number): number {
  if (sorted.length === 0) throw new RangeError('a quantile needs at least one sample');
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (position - below);
}

/** null without samples. */
export function summarise(samples: readonly number[]): Summary | null {
  if (samples.length === 0) return null;
  const sorted = samples.toSorted((a, b) => a - b);
  return {
    mean: mean([...samples]),
    p50: sortedQuantile(sorted, 0.5),
    p90: sortedQuantile(sorted, 0.9),
    max: sorted.at(-1)!,
  };
}

/** As in vLLM's table. */
export const ENOUGH_FOR_P99 = 100;

/** pandas' describe(); null without samples. */
export function describeSamples(samples: readonly number[]): Described | null {
  if (samples.length === 0) return null;
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (q: number): number => sortedQuantile(sorted, q);
  return {
    count: sorted.length,
    mean: mean(sorted),
    std: sorted.length > 1 ? sampleStandardDeviation(sorted) : null,
    min: sorted[0]!,
    p25: at(0.25),
    p50: at(0.5),
    p75: at(0.75),
    p90: at(0.9),
    p99: sorted.length >= ENOUGH_FOR_P99 ? at(0.99) : null,
    max: sorted.at(-1)!,
  };
}
