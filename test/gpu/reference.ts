/** Float64 references for the kernels, independent of the model's oracle. */
import { floatToHalf, halfToFloat } from '../../src/model/weights/half.ts';

/** Reproducible numbers in (-1, 1). */
export function randomValues(count: number, seed: number): Float32Array {
  let state = (seed * 2654435761) >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32) * 2 - 1;
  });
}

/** The values as a device stores them in f16 or f32, and the same rounded values as numbers. */
export function store(
  values: Float32Array,
  dtype: 'f16' | 'f32',
): { data: Float32Array | Uint16Array; values: Float32Array } {
  if (dtype === 'f32') return { data: values, values };
  const data = Uint16Array.from(values, floatToHalf);
  return { data, values: Float32Array.from(data, halfToFloat) };
}

/** Turns a row-major [k][n] matrix into consecutive panels of `panel` columns; the last has the rest. */
export function inPanels<T extends Float32Array | Uint16Array>(
  rows: T,
  k: number,
  n: number,
  panel: number,
): T {
  const out = rows.slice() as T;
  let at = 0;
  for (let first = 0; first < n; first += panel)
    for (let row = 0; row < k; row++)
      for (let column = first; column < Math.min(first + panel, n); column++)
        out[at++] = rows[row * n + column]!;
  return out;
}

/** [m][k] x [k][n] + bias. */
export function matmul(
  a: ArrayLike<number>,
  w: ArrayLike<number>,
  bias: ArrayLike<number> | null,
  m: number,
  k: number,
  n: number,
): Float64Array {
  const out = new Float64Array(m * n);
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = bias ? bias[j]! : 0;
      for (let c = 0; c < k; c++) sum += a[i * k + c]! * w[c * n + j]!;
      out[i * n + j] = sum;
    }
  }
  return out;
}

/**
 * The error bound of an f16 product, for each value. It adds up six roundings by 2^-11 of each term (a's value, the
 * weight, the product and three sums), the loss below the range of f16 (2^-25 of the largest of four values of a, at
 * each rounding), and the f32 sum.
 */
export function f16Bound(
  a: ArrayLike<number>,
  w: ArrayLike<number>,
  m: number,
  k: number,
  n: number,
): Float64Array {
  const out = new Float64Array(m * n);
  const sums = (k / 4 + 2) * 2 ** -24;
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      for (let c = 0; c < k; c += 4) {
        const four = [0, 1, 2, 3].map(
          (d) => [Math.abs(a[i * k + c + d]!), Math.abs(w[(c + d) * n + j]!)] as const,
        );
        const size = four.reduce((sum, [x, weight]) => sum + x * weight, 0);
        const least =
          Math.max(...four.map(([x]) => x)) * four.reduce((sum, [, weight]) => sum + 1 + weight, 0);
        out[i * n + j]! += size * (6 * 2 ** -11 * 1.01 + sums) + least * 2 ** -25;
      }
    }
  }
  return out;
}

/** softmax(q K^T) V of one head over the last `window` of keys 0 .. length - 1, [position][d]; q is already scaled. */
export function attention(
  q: ArrayLike<number>,
  keys: ArrayLike<number>,
  values: ArrayLike<number>,
  length: number,
  d: number,
  window = length,
): Float64Array {
  const scores = Array.from({ length }, (_, t) => {
    if (t < length - window) return Number.NEGATIVE_INFINITY;
    let s = 0;
    for (let i = 0; i < d; i++) s += q[i]! * keys[t * d + i]!;
    return s;
  });
  const max = Math.max(...scores);
  const weights = scores.map((s) => Math.exp(s - max));
  const total = weights.reduce((sum, w) => sum + w, 0);
  return Float64Array.from({ length: d }, (_, i) => {
    let sum = 0;
    for (let t = Math.max(0, length - window); t < length; t++) sum += weights[t]! * values[t * d + i]!;
    return sum / total;
  });
}

/** The largest |a - b|; NaN if any difference is NaN. */
export function maxError(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length < b.length) return Number.NaN;
  let worst = 0;
  for (let i = 0; i < b.length; i++) {
    const error = Math.abs(a[i]! - b[i]!);
    if (Number.isNaN(error)) return error;
    worst = Math.max(worst, error);
  }
  return worst;
}
