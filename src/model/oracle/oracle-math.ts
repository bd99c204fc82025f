/** Float64 arithmetic for the oracle, as plain loops. Matrices are kept as [outputs][inputs] float32, an exact copy. */

import type { Activation, Matrix } from '../types.ts';
import { halfTable } from '../weights/half.ts';
import { panelParts } from '../weights/panels.ts';

/** [outputs][inputs]: the values of a Matrix without padding. */
export interface DenseMatrix {
  outputs: number;
  inputs: number;
  data: Float32Array;
}

export function denseMatrix(matrix: Matrix): DenseMatrix {
  const { rows: inputs, columns: outputs } = matrix;
  const data = new Float32Array(outputs * inputs);
  const widen = matrix.dtype === 'f16' ? halfTable() : null;
  for (const { first, count, at, stride } of panelParts(matrix, 0, outputs)) {
    for (let k = 0; k < inputs; k++) {
      for (let n = 0; n < count; n++) {
        const element = matrix.data[at + k * stride + n]!;
        data[(first + n) * inputs + k] = widen ? widen[element]! : element;
      }
    }
  }
  return { outputs, inputs, data };
}

/** out[row][n] = bias[n] + sum over k of x[row][k] * matrix[n][k]. Four rows share each pass over the weights. */
export function linear(
  x: Float64Array,
  rows: number,
  matrix: DenseMatrix,
  bias: Float32Array | null,
): Float64Array {
  const { inputs: K, outputs: N, data } = matrix;
  const out = new Float64Array(rows * N);
  let row = 0;
  for (; row + 4 <= rows; row += 4) {
    const r0 = row * K;
    const r1 = r0 + K;
    const r2 = r1 + K;
    const r3 = r2 + K;
    for (let n = 0; n < N; n++) {
      let a0 = 0;
      let a1 = 0;
      let a2 = 0;
      let a3 = 0;
      const w0 = n * K;
      for (let k = 0; k < K; k++) {
        const w = data[w0 + k]!;
        a0 += x[r0 + k]! * w;
        a1 += x[r1 + k]! * w;
        a2 += x[r2 + k]! * w;
        a3 += x[r3 + k]! * w;
      }
      out[row * N + n] = a0;
      out[(row + 1) * N + n] = a1;
      out[(row + 2) * N + n] = a2;
      out[(row + 3) * N + n] = a3;
    }
  }
  for (; row < rows; row++) linearRow(x.subarray(row * K, (row + 1) * K), matrix, out.subarray(row * N));
  if (bias) {
    for (let i = 0; i < out.length; i++) out[i]! += bias[i % N]!;
  }
  return out;
}

/** One row, four outputs at a time: independent sums keep the processor busy. */
function linearRow(x: Float64Array, matrix: DenseMatrix, out: Float64Array): void {
  const { inputs: K, outputs: N, data } = matrix;
  let n = 0;
  for (; n + 4 <= N; n += 4) {
    const w0 = n * K;
    const w1 = w0 + K;
    const w2 = w1 + K;
    const w3 = w2 + K;
    let a0 = 0;
    let a1 = 0;
    let a2 = 0;
    let a3 = 0;
    for (let k = 0; k < K; k++) {
      const value = x[k]!;
      a0 += value * data[w0 + k]!;
      a1 += value * data[w1 + k]!;
      a2 += value * data[w2 + k]!;
      a3 += value * data[w3 + k]!;
    }
    out[n] = a0;
    out[n + 1] = a1;
    out[n + 2] = a2;
    out[n + 3] = a3;
  }
  for (; n < N; n++) {
    let sum = 0;
    for (let k = 0; k < K; k++) sum += x[k]! * data[n * K + k]!;
    out[n] = sum;
  }
}

/** Normalises each run of `weight.length` values: x / sqrt(mean(x^2) + eps) * weight. */
export function rmsNorm(x: Float64Array, weight: Float32Array, eps: number): Float64Array {
  const width = weight.length;
  const out = new Float64Array(x.length);
  for (let start = 0; start < x.length; start += width) {
    let squares = 0;
    for (let i = 0; i < width; i++) squares += x[start + i]! ** 2;
    const scale = 1 / Math.sqrt(squares / width + eps);
    for (let i = 0; i < width; i++) out[start + i] = x[start + i]! * scale * weight[i]!;
  }
  return out;
}

/** Rotates each pair (i, i + half) of one head, in place, by position * frequencies[i] radians. */
export function rotate(head: Float64Array, position: number, frequencies: Float64Array): void {
  const half = frequencies.length;
  for (let i = 0; i < half; i++) {
    const angle = position * frequencies[i]!;
    const cos = Math.cos(angle);
    const sin = Math.sin(angle);
    const a = head[i]!;
    const b = head[i + half]!;
    head[i] = a * cos - b * sin;
    head[i + half] = b * cos + a * sin;
  }
}

/** activation(gate) * up, [rows][width]. A row of `gateUp` holds gate, then up. */
export function gatedActivation(
  gateUp: Float64Array,
  rows: number,
  width: number,
  activation: Activation = 'silu',
): Float64Array {
  const activate = activation === 'silu' ? silu : geluTanh;
  const out = new Float64Array(rows * width);
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < width; i++) {
      const gate = gateUp[row * 2 * width + i]!;
      out[row * width + i] = activate(gate) * gateUp[row * 2 * width + width + i]!;
    }
  }
  return out;
}

const silu = (x: number): number => x / (1 + Math.exp(-x));

const geluTanh = (x: number): number =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/**
 * softmax(q K^T * scale) V over one head's keys and values, [position][d]. Uses the last `window` of the first `length`
 * positions, or all of them. The default scale is 1 / sqrt(d).
 */
export function attend(
  q: Float64Array,
  keys: Float64Array,
  values: Float64Array,
  length: number,
  out: Float64Array,
  { window = length, scale = 1 / Math.sqrt(q.length) }: { window?: number; scale?: number } = {},
): void {
  const d = q.length;
  const first = Math.max(0, length - window);
  const scores = new Float64Array(length);
  let max = Number.NEGATIVE_INFINITY;
  for (let t = first; t < length; t++) {
    let score = 0;
    for (let i = 0; i < d; i++) score += q[i]! * keys[t * d + i]!;
    scores[t] = score * scale;
    max = Math.max(max, scores[t]!);
  }
  let sum = 0;
  out.fill(0);
  for (let t = first; t < length; t++) {
    const p = Math.exp(scores[t]! - max);
    sum += p;
    for (let i = 0; i < d; i++) out[i]! += p * values[t * d + i]!;
  }
  for (let i = 0; i < d; i++) out[i]! /= sum;
}
