/**
 * Confidence intervals of a share of requests. Consecutive requests are not independent, because they meet the same
 * queue. The time is therefore cut into batches (batch means), and the differences between these show how many
 * independent draws the requests are worth.
 */
import { sumOf } from '../../sum.ts';

/** Requests that arrived within one stretch of time, and those of them that kept the SLO. */
export interface Batch {
  counted: number;
  good: number;
}

export interface Interval {
  low: number;
  high: number;
}

export function shareOfBatches(batches: readonly Batch[]): number {
  const { counted, good } = total(batches);
  return counted > 0 ? good / counted : 0;
}

/** 95% interval of the share: Wilson's, for as many draws as the spread of the batches allows. */
export function shareInterval(batches: readonly Batch[]): Interval {
  const { counted } = total(batches);
  if (counted === 0) return { low: 0, high: 1 };
  const share = shareOfBatches(batches);
  const single = (share * (1 - share)) / counted;
  const spread = varianceOf(deviations(batches));
  const draws = single > 0 ? counted / Math.max(1, spread / single) : counted;
  const t = studentT975(Math.max(1, used(batches) - 1));
  const centre = (share + (t * t) / (2 * draws)) / (1 + (t * t) / draws);
  const half =
    (t / (1 + (t * t) / draws)) * Math.sqrt((share * (1 - share)) / draws + (t * t) / (4 * draws * draws));
  return {
    low: Math.max(0, Math.min(share, centre - half)),
    high: Math.min(1, Math.max(share, centre + half)),
  };
}

/** 95% interval of one's share minus the other's. `inPairs`: both served the same arrivals, batch by batch. */
export function differenceInterval(
  one: readonly Batch[],
  other: readonly Batch[],
  inPairs: boolean,
): Interval {
  const difference = shareOfBatches(one) - shareOfBatches(other);
  const [ones, others] = [deviations(one), deviations(other)];
  const variance = inPairs
    ? varianceOf(ones.map((deviation, i) => deviation - (others[i] ?? 0)))
    : varianceOf(ones) + varianceOf(others);
  const half = studentT975(Math.max(1, used(one) - 1)) * Math.sqrt(variance);
  return { low: difference - half, high: difference + half };
}

const total = (batches: readonly Batch[]): Batch =>
  batches.reduce((sum, { counted, good }) => ({ counted: sum.counted + counted, good: sum.good + good }), {
    counted: 0,
    good: 0,
  });

const used = (batches: readonly Batch[]): number => batches.filter(({ counted }) => counted > 0).length;

/** What each batch contributes to the error of the share, which is a ratio of sums. */
function deviations(batches: readonly Batch[]): number[] {
  const { counted } = total(batches);
  const share = shareOfBatches(batches);
  return batches.map((batch) => (counted > 0 ? (batch.good - share * batch.counted) / counted : 0));
}

function varianceOf(values: readonly number[]): number {
  const n = values.length;
  return n > 1 ? (n / (n - 1)) * sumOf(values, (value) => value * value) : 0;
}

/** Student's t at 97.5%, by the Cornish-Fisher expansion: within 0.5% from 4 degrees of freedom on. */
export function studentT975(degrees: number): number {
  const z = 1.959964;
  const [z3, z5, z7] = [z ** 3, z ** 5, z ** 7];
  return (
    z +
    (z3 + z) / (4 * degrees) +
    (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees ** 2) +
    (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees ** 3)
  );
}
