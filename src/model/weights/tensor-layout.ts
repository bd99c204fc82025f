/**
 * Converts elements of a stored tensor to the kernels' matrix layout: dtype conversion, check for finite values,
 * transposition.
 */
import { ModelError } from '../../errors.ts';
import type { Matrix, WeightDtype } from '../types.ts';
import { floatToHalf, halfTable } from './half.ts';
import { panelParts } from './panels.ts';
import { bfloatTable, type StoredTensor } from './stored-tensor.ts';

/** Rows of a panel that are transposed at once. */
const TILE_ROWS = 32;
/** All ones: infinity or NaN. */
const HALF_EXPONENT = 0x7c00;
const LOWEST_EXPONENT = 0x0400;
/** The same for two halves in one word. */
const BOTH_EXPONENTS = 0x7c007c00;
const BOTH_LOWEST = 0x04000400;
const SIGNS = 0x80008000 | 0;

/**
 * Stored elements in the requested dtype, valid until the next call. Throws ModelError for a value that is not finite
 * in that dtype.
 */
export function convert(
  data: Uint16Array | Float32Array,
  tensor: StoredTensor,
  dtype: WeightDtype,
): Uint16Array | Float32Array {
  const values = tensor.dtype === 'F16' ? halfTable() : tensor.dtype === 'BF16' ? bfloatTable() : null;
  const converted = dtype === 'f16' ? toHalves(data, tensor.dtype) : toFloats(data, values);
  const bad = firstNotFinite(converted);
  if (bad === null) return converted;
  throw badValue(values ? values[data[bad]!]! : data[bad]!, tensor, dtype);
}

function toHalves(data: Uint16Array | Float32Array, stored: string): Uint16Array {
  if (stored === 'F16') return data as Uint16Array;
  if (scratch.length < data.length) scratch = new Uint16Array(data.length);
  const out = scratch.subarray(0, data.length);
  if (stored === 'BF16') {
    bfloatHalves ??= Uint16Array.from(bfloatTable(), floatToHalf);
    const halves = bfloatHalves;
    const even = data.length & ~1;
    const from = new Uint32Array(data.buffer, data.byteOffset, even / 2);
    const to = new Uint32Array(out.buffer, 0, even / 2);
    for (let i = 0; i < to.length; i++) {
      const pair = from[i]!;
      to[i] = halves[pair & 0xffff]! | (halves[pair >>> 16]! << 16);
    }
    if (even < data.length) out[even] = halves[data[even]!]!;
  } else {
    for (let i = 0; i < out.length; i++) out[i] = floatToHalf(data[i]!);
  }
  return out;
}

/** Reused, because the system would zero new memory page by page for every chunk. */
let scratch = new Uint16Array(0);

/** The half of each bfloat16 pattern. */
let bfloatHalves: Uint16Array | null = null;

function toFloats(data: Uint16Array | Float32Array, values: Float32Array | null): Float32Array {
  if (values === null) return data as Float32Array;
  const out = new Float32Array(data.length);
  for (let i = 0; i < out.length; i++) out[i] = values[data[i]!]!;
  return out;
}

function firstNotFinite(data: Uint16Array | Float32Array): number | null {
  if (data instanceof Float32Array) {
    for (let i = 0; i < data.length; i++) if (!Number.isFinite(data[i])) return i;
  } else {
    if (allFinite(data)) return null;
    return data.findIndex((bits) => (bits & HALF_EXPONENT) === HALF_EXPONENT);
  }
  return null;
}

/** Whether every half is finite, two at a time. */
function allFinite(data: Uint16Array): boolean {
  const even = data.length & ~1;
  const pairs = new Uint32Array(data.buffer, data.byteOffset, even / 2);
  let carries = even < data.length ? (data[even]! & HALF_EXPONENT) + LOWEST_EXPONENT : 0;
  // An exponent of all ones carries into the sign bit.
  for (let i = 0; i < pairs.length; i++) carries |= (pairs[i]! & BOTH_EXPONENTS) + BOTH_LOWEST;
  return (carries & SIGNS) === 0;
}

function badValue(value: number, { name, path }: StoredTensor, dtype: WeightDtype): ModelError {
  return Number.isFinite(value)
    ? new ModelError(
        `${path}: tensor ${name} has the value ${value}, beyond what ${dtype} holds (65,504): load the model with f32 weights (--weight-dtype f32)`,
      )
    : new ModelError(
        `${path}: tensor ${name} has the value ${value}: wanted finite numbers; copy the file again`,
      );
}

/** `source` is [count][matrix.rows]. Its rows become the matrix's columns from `column` on. */
export function transposeInto(
  matrix: Matrix,
  column: number,
  source: Uint16Array | Float32Array,
  count: number,
): void {
  if (source instanceof Uint16Array && (matrix.rows | column | count) % 2 === 0) {
    transposePairs(matrix, column, source, count);
  } else transposeEach(matrix, column, source, count);
}

function transposeEach(
  matrix: Matrix,
  column: number,
  source: Uint16Array | Float32Array,
  count: number,
): void {
  const { rows, data } = matrix;
  for (const part of panelParts(matrix, column, count)) {
    const first = (part.first - column) * rows;
    for (let band = 0; band < rows; band += TILE_ROWS) {
      const bandEnd = Math.min(band + TILE_ROWS, rows);
      for (let row = band; row < bandEnd; row++) {
        const at = part.at + row * part.stride;
        let from = first + row;
        for (let n = 0; n < part.count; n++) {
          data[at + n] = source[from]!;
          from += rows;
        }
      }
    }
  }
}

/** For halves, with even rows, column and count: transposes 2x2 squares, two halves per word. */
function transposePairs(matrix: Matrix, column: number, source: Uint16Array, count: number): void {
  const { rows, data } = matrix;
  const pairs = new Uint32Array(source.buffer, source.byteOffset, source.length / 2);
  const out = new Uint32Array(data.buffer, data.byteOffset, data.length / 2);
  const length = rows / 2;
  for (const part of panelParts(matrix, column, count)) {
    const stride = part.stride / 2;
    const first = (part.first - column) * length;
    for (let band = 0; band < length; band += TILE_ROWS / 2) {
      const bandEnd = Math.min(band + TILE_ROWS / 2, length);
      for (let row = band; row < bandEnd; row++) {
        let at = part.at / 2 + 2 * row * stride;
        let from = first + row;
        for (let n = 0; n < part.count; n += 2) {
          const even = pairs[from]!;
          const odd = pairs[from + length]!;
          out[at] = (even & 0xffff) | (odd << 16);
          out[at + stride] = (even >>> 16) | (odd & 0xffff0000);
          from += 2 * length;
          at++;
        }
      }
    }
  }
}
