/**
 * Robust linear fits with coefficients of at least 0, for a handful of them: Huber weights, and errors relative to the
 * fitted value (a time of 2 s may have a larger error than one of 20 ms). Relative to the measured value, a time that
 * noise made short would weigh more than one that it made long, and fits would come out too low. If noise is as often
 * short as long by the same share, the fit is its mean; if the long times are longer, between its median and its mean.
 */

import { sum, sumOf } from '../sum.ts';
import { quantile } from './statistics.ts';

export interface Fit {
  coefficients: readonly number[];
  /** Share of the samples' variance that the fit explains. */
  r2: number;
  /** Median of |measured - fitted| / measured. */
  medianError: number;
}

const REWEIGHTINGS = 30;
/** Huber's constant, in deviations: 95% as efficient as plain least squares on clean data. */
const HUBER = 1.345;
/** From the median of absolute deviations to a standard deviation. */
const MAD_TO_SIGMA = 1.4826;
/** Errors are relative to at least this share of the measured value: on the way a fit may be near 0 or below. */
const LEAST_SHARE = 0.1;

/** rows[i] are the features behind values[i] (above 0). Throws RangeError with fewer rows than coefficients. */
export function fitNonNegative(rows: readonly (readonly number[])[], values: readonly number[]): Fit {
  const width = rows[0]?.length ?? 0;
  if (rows.length < width || width === 0)
    throw new RangeError(`${rows.length} samples cannot fit ${width} coefficients`);
  let active = Array.from({ length: width }, (_, i) => i);
  for (;;) {
    const coefficients = huber(rows, values, active);
    const negative = active.filter((i) => coefficients[i]! < 0);
    if (negative.length === 0) return { coefficients, ...quality(rows, values, coefficients) };
    // Remove the most negative coefficient first, judged by its contribution.
    const share = (i: number) => coefficients[i]! * mean(rows.map((row) => Math.abs(row[i]!)));
    const worst = negative.reduce((a, b) => (share(a) <= share(b) ? a : b));
    active = active.filter((i) => i !== worst);
    if (active.length === 0) return { coefficients: rows[0]!.map(() => 0), r2: 0, medianError: 1 };
  }
}

const mean = (list: readonly number[]): number => sum(list) / list.length;

const predict = (coefficients: readonly number[], row: readonly number[]): number =>
  row.reduce((sum, value, i) => sum + value * coefficients[i]!, 0);

/** Coefficients not in `active` are 0. */
function huber(
  rows: readonly (readonly number[])[],
  values: readonly number[],
  active: readonly number[],
): number[] {
  const inverse = (...sizes: number[]): number => 1 / Math.max(...sizes, 1e-9);
  // Nothing is fitted yet. The median keeps a value near 0, which would weigh most, from deciding where the fit begins.
  const least = LEAST_SHARE * quantile(values, 0.5);
  let scale = values.map((value) => inverse(value, least));
  let weights = values.map(() => 1);
  let full: number[] = [];
  for (let i = 0; i < REWEIGHTINGS; i++) {
    const solved = solveNormal(rows, values, scale, weights, active);
    full = Array.from({ length: rows[0]!.length }, (_, j) => {
      const at = active.indexOf(j);
      return at < 0 ? 0 : solved[at]!;
    });
    const fitted = rows.map((row) => predict(full, row));
    scale = values.map((value, r) => inverse(fitted[r]!, LEAST_SHARE * value));
    const residuals = values.map((value, r) => (value - fitted[r]!) * scale[r]!);
    const sigma = MAD_TO_SIGMA * quantile(residuals.map(Math.abs), 0.5);
    if (sigma === 0) break;
    weights = residuals.map((residual) =>
      Math.min(1, (HUBER * sigma) / Math.max(1e-300, Math.abs(residual))),
    );
  }
  return full;
}

/** Scales columns to the same size first, so that bytes and constants fit into one system. */
function solveNormal(
  rows: readonly (readonly number[])[],
  values: readonly number[],
  scale: readonly number[],
  weights: readonly number[],
  active: readonly number[],
): number[] {
  const size = active.map((j) => Math.max(...rows.map((row, r) => Math.abs(row[j]! * scale[r]!))) || 1);
  const matrix = active.map(() => active.map(() => 0));
  const right = active.map(() => 0);
  for (const [r, row] of rows.entries()) {
    const x = active.map((j, a) => (row[j]! * scale[r]!) / size[a]!);
    const y = values[r]! * scale[r]!;
    for (const [a, left] of x.entries()) {
      right[a]! += weights[r]! * left * y;
      for (const [b, other] of x.entries()) matrix[a]![b]! += weights[r]! * left * other;
    }
  }
  return solve(matrix, right).map((value, a) => value / size[a]!);
}

/** How much larger a later pivot must be: of equal columns, rounding must not choose one. */
const CLEARLY_LARGER = 1 + 1e-9;

/**
 * Solves normal equations. Takes the largest pivot on the diagonal, row and column together, so that a column that
 * depends on others takes no equation from them; it gets 0.
 */
function solve(matrix: number[][], right: number[]): number[] {
  const n = right.length;
  const solution = new Array<number>(n).fill(0);
  const left = new Set(solution.keys());
  const pivots: number[] = [];
  while (left.size > 0) {
    const pivot = [...left].reduce((a, b) => (matrix[b]![b]! > CLEARLY_LARGER * matrix[a]![a]! ? b : a));
    const head = matrix[pivot]![pivot]!;
    if (head < 1e-12) break;
    left.delete(pivot);
    pivots.push(pivot);
    for (const row of left) {
      const factor = matrix[row]![pivot]! / head;
      for (const k of left) matrix[row]![k]! -= factor * matrix[pivot]![k]!;
      right[row]! -= factor * right[pivot]!;
    }
  }
  for (const [i, pivot] of [...pivots.entries()].reverse()) {
    const known = sumOf(pivots.slice(i + 1), (k) => matrix[pivot]![k]! * solution[k]!);
    solution[pivot] = (right[pivot]! - known) / matrix[pivot]![pivot]!;
  }
  return solution;
}

function quality(
  rows: readonly (readonly number[])[],
  values: readonly number[],
  coefficients: readonly number[],
): { r2: number; medianError: number } {
  const fitted = rows.map((row) => predict(coefficients, row));
  const average = mean(values);
  const rest = values.reduce((sum, value, i) => sum + (value - fitted[i]!) ** 2, 0);
  const all = sumOf(values, (value) => (value - average) ** 2);
  const errors = values.map((value, i) => Math.abs(value - fitted[i]!) / Math.max(value, 1e-9));
  return { r2: all === 0 ? (rest === 0 ? 1 : 0) : 1 - rest / all, medianError: quantile(errors, 0.5) };
}

/** Isotonic regression: the closest non-decreasing values; decreasing neighbours are pooled to their mean. */
export function neverLess(values: readonly number[]): number[] {
  const pools: { sum: number; count: number }[] = [];
  for (const value of values) {
    let pool = { sum: value, count: 1 };
    let last = pools.at(-1);
    while (last && last.sum / last.count > pool.sum / pool.count) {
      pool = { sum: last.sum + pool.sum, count: last.count + pool.count };
      pools.pop();
      last = pools.at(-1);
    }
    pools.push(pool);
  }
  return pools.flatMap(({ sum, count }) => new Array<number>(count).fill(sum / count));
}
