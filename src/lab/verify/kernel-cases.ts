/** Test data for single kernels (shapes, and random numbers as a device stores them), and the comparison of results. */
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { type Architecture, type Matrix, pad4, type WeightDtype } from '../../model/types.ts';
import { floatToHalf, halfToFloat } from '../../model/weights/half.ts';
import { elementPlace } from '../../model/weights/panels.ts';
import { seededGenerator } from '../../seeded.ts';
import type { KernelBench } from './kernel-bench.ts';

export const DTYPES: readonly WeightDtype[] = ['f16', 'f32'];

export interface KernelShape {
  name: string;
  architecture: Architecture;
  blockSize: number;
}

/** One comparison: the largest error found, and the largest allowed. */
export interface Finding {
  what: string;
  error: number;
  bound: number;
}

export interface KernelCheck {
  name: string;
  measure(bench: KernelBench, shape: KernelShape, random: RandomNumbers): Promise<Finding[]>;
}

/** The user's model, and one whose sizes are not multiples of a tile, with every optional bias and norm. */
export function kernelShapes(architecture: Architecture, blockSize: number): KernelShape[] {
  const odd: Architecture = {
    ...architecture,
    hiddenSize: 74,
    numHeads: 6,
    numKvHeads: 2,
    headDim: 16,
    intermediateSize: 101,
    vocabSize: 517,
    qkvBias: true,
    oBias: true,
    mlpBias: true,
    qkNorm: true,
  };
  return [
    { name: architecture.name, architecture, blockSize },
    { name: 'odd sizes', architecture: odd, blockSize: 4 },
  ];
}

export class RandomNumbers {
  readonly #generator: RandomGenerator;

  constructor(seed: number) {
    this.#generator = seededGenerator(seed);
  }

  /** Values in [-1, 1). */
  values(count: number): Float32Array {
    return Float32Array.from({ length: count }, () => this.#generator.next() / 2 ** 31);
  }

  /** An integer in [0, limit). */
  below(limit: number): number {
    return Math.floor((this.#generator.next() / 2 ** 32 + 0.5) * limit);
  }

  /** A matrix scaled so that products with values of about 1 are about 1. The padding is 0. */
  matrix(rows: number, columns: number, dtype: WeightDtype): Matrix {
    const data = new Float32Array(pad4(rows) * pad4(columns));
    const scale = 1 / Math.sqrt(rows);
    for (let row = 0; row < rows; row++) {
      const values = this.values(columns);
      for (let column = 0; column < columns; column++)
        data[elementPlace({ rows, columns }, row, column)] = values[column]! * scale;
    }
    return dtype === 'f32'
      ? { dtype, rows, columns, data }
      : { dtype, rows, columns, data: Uint16Array.from(data, floatToHalf) };
  }
}

/** The numbers as a device stores them, and their values after rounding. */
export function stored(
  values: Float32Array,
  dtype: WeightDtype,
): { data: Float32Array | Uint16Array; values: Float32Array } {
  if (dtype === 'f32') return { data: values, values };
  const data = Uint16Array.from(values, floatToHalf);
  return { data, values: Float32Array.from(data, halfToFloat) };
}

/** Reads values that a device has stored. */
export function loaded(bytes: ArrayBuffer, dtype: WeightDtype, count: number): Float32Array {
  return dtype === 'f32'
    ? new Float32Array(bytes, 0, count)
    : Float32Array.from(new Uint16Array(bytes, 0, count), halfToFloat);
}

/** Pads [rows][width] with zeros to [rows][pad4(width)], the kernels' layout of activations. */
export function padded(values: ArrayLike<number>, width: number): Float32Array {
  const out = new Float32Array((values.length / width) * pad4(width));
  for (let i = 0; i < values.length; i++) out[Math.floor(i / width) * pad4(width) + (i % width)] = values[i]!;
  return out;
}

/**
 * The largest |found - expected| / max(1, |expected|). An expected NaN stands for memory that must not be written. Any other
 * NaN makes the error infinite.
 */
export function largestError(found: ArrayLike<number>, expected: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < expected.length; i++) {
    const [a, b] = [found[i]!, expected[i]!];
    if (Number.isNaN(b) && Number.isNaN(a)) continue;
    const error = Math.abs(a - b) / Math.max(1, Math.abs(b));
    if (Number.isNaN(error)) return Number.POSITIVE_INFINITY;
    largest = Math.max(largest, error);
  }
  return largest;
}
