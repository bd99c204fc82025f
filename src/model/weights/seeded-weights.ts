/**
 * A preset's weights, generated from a seed. Only integer arithmetic and exact scaling are used, so every machine,
 * thread and engine gets the same bits for the same (preset, seed). The output is not meaningful text, but the model
 * behaves like a trained one:
 * - the residual stream has about unit scale, and each layer adds about as much as an embedding;
 * - attention scores have a standard deviation of about 2, so few tokens get most of the weight, and a changed context
 *   changes the output;
 * - embedding scales and output norms are compensated for, so the stream is the same with and without them;
 * - final norm gains have either sign, so tied embeddings do not make a token its own likeliest successor.
 */

import { sumOf } from '../../sum.ts';
import {
  type Allocate,
  type Architecture,
  type Columns,
  emptyMatrix,
  inMemory,
  type LayerWeights,
  type Matrix,
  type ModelWeights,
  pad4,
  type WeightDtype,
} from '../types.ts';
import { floatToHalf, halfTable, halfToFloat } from './half.ts';
import { mix } from './mix.ts';
import { elementPlace, panelParts } from './panels.ts';

/** Smallest normal half. Smaller values become 0, because some adapters flush subnormals. */
const SMALLEST_NORMAL = 2 ** -14;
const LOGIT_DEVIATION = 3;
const SCORE_DEVIATION = 2;

/** Distribution of a run of a matrix's columns: uniform, with this standard deviation. */
interface ColumnRange {
  columns: number;
  deviation: number;
}

/** FNV-1a over UTF-16 units, then a finaliser. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** Maps 16 random bits to half bits, uniform around 0 with this standard deviation. */
function uniformTable(deviation: number): Uint16Array {
  const span = deviation * Math.sqrt(3);
  const table = new Uint16Array(65536);
  for (let i = 0; i < 32768; i++) {
    const bits = uniformBits(32768 + i, span);
    table[32768 + i] = bits;
    table[32767 - i] = bits === 0 ? 0 : bits | 0x8000;
  }
  return table;
}

/** The half for 16 random bits, between -span and span. */
function uniformBits(random: number, span: number): number {
  const value = ((random - 32767.5) / 32768) * span;
  return Math.abs(value) < SMALLEST_NORMAL ? 0 : floatToHalf(value);
}

/** Pairs of neighbouring values in several rows. */
interface Block {
  rows: number;
  /** Pairs in a row. */
  pairs: number;
  /** Index of the first pair in memory, and the stride between rows, in pairs. */
  at: number;
  stride: number;
  /** The same in the whole matrix in row-major order. */
  counter: number;
  whole: number;
}

function fillHalf(out: Uint32Array, block: Block, key: number, table: Uint16Array) {
  for (let row = 0; row < block.rows; row++) {
    const at = block.at + row * block.stride;
    const counter = block.counter + row * block.whole;
    for (let i = 0; i < block.pairs; i++) {
      let h = (counter + i) ^ key;
      h ^= h >>> 16;
      h = Math.imul(h, 0x21f0aaad);
      h ^= h >>> 15;
      h = Math.imul(h, 0x735a2d97);
      h ^= h >>> 15;
      out[at + i] = table[h & 0xffff]! | (table[h >>> 16]! << 16);
    }
  }
}

function fillFloat(out: Float32Array, block: Block, key: number, table: Float32Array) {
  for (let row = 0; row < block.rows; row++) {
    const at = 2 * (block.at + row * block.stride);
    const counter = block.counter + row * block.whole;
    for (let i = 0; i < block.pairs; i++) {
      const h = mix((counter + i) ^ key);
      out[at + 2 * i] = table[h & 0xffff]!;
      out[at + 2 * i + 1] = table[h >>> 16]!;
    }
  }
}

export class SeededWeights implements ModelWeights {
  readonly architecture: Architecture;
  readonly dtype: WeightDtype;
  readonly seed: number;
  #halfTables = new Map<number, Uint16Array>();
  #floatTables = new Map<number, Float32Array>();

  /** `architecture`: any shape, not only presets. `seed`: any integer. */
  constructor(architecture: Architecture, seed: number, dtype: WeightDtype) {
    this.architecture = architecture;
    this.seed = seed;
    this.dtype = dtype;
  }

  async embedding(allocate: Allocate = inMemory, columns?: Columns): Promise<Matrix> {
    return this.#vocabulary(allocate, 'embedding', 1 / this.architecture.embeddingScale, columns);
  }

  async lmHead(allocate: Allocate = inMemory, columns?: Columns): Promise<Matrix | null> {
    if (this.architecture.tieWordEmbeddings) return null;
    return this.#vocabulary(allocate, 'lmHead', 1, columns);
  }

  async finalNorm(): Promise<Float32Array> {
    const { hiddenSize, tieWordEmbeddings, embeddingScale } = this.architecture;
    const headScale = tieWordEmbeddings ? embeddingScale : 1;
    return this.#vector('finalNorm', hiddenSize, 0, (headScale * LOGIT_DEVIATION) / Math.sqrt(hiddenSize));
  }

  async layer(index: number, allocate: Allocate = inMemory): Promise<LayerWeights> {
    const { hiddenSize, numHeads, numKvHeads, headDim, intermediateSize } = this.architecture;
    const { qkvBias, oBias, mlpBias, qkNorm, outputNorms } = this.architecture;
    const name = (tensor: string) => `layers.${index}.${tensor}`;
    const qWidth = numHeads * headDim;
    const kvWidth = numKvHeads * headDim;
    const unit = 1 / Math.sqrt(hiddenSize);
    const qkScale = Math.sqrt(SCORE_DEVIATION);
    const headNorm = (tensor: string) => (qkNorm ? this.#vector(name(tensor), headDim, qkScale, 0.2) : null);
    const outNorm = (tensor: string) =>
      outputNorms ? this.#vector(name(tensor), hiddenSize, 1, 0.15) : null;
    return {
      inputNorm: this.#vector(name('inputNorm'), hiddenSize, 1, 0.15),
      qkv: this.#matrix(allocate, name('qkv'), hiddenSize, [
        { columns: qWidth + kvWidth, deviation: qkScale * unit },
        { columns: kvWidth, deviation: unit },
      ]),
      qkvBias: qkvBias ? this.#vector(name('qkvBias'), qWidth + 2 * kvWidth, 0, 0.3) : null,
      qNorm: headNorm('qNorm'),
      kNorm: headNorm('kNorm'),
      o: this.#matrix(allocate, name('o'), qWidth, [
        { columns: hiddenSize, deviation: 2 / Math.sqrt(qWidth) },
      ]),
      oBias: oBias ? this.#vector(name('oBias'), hiddenSize, 0, 0.1) : null,
      attentionOutNorm: outNorm('attentionOutNorm'),
      mlpNorm: this.#vector(name('postAttentionNorm'), hiddenSize, 1, 0.15),
      gateUp: this.#matrix(allocate, name('gateUp'), hiddenSize, [
        { columns: 2 * intermediateSize, deviation: 1.5 * unit },
      ]),
      gateUpBias: mlpBias ? this.#vector(name('gateUpBias'), 2 * intermediateSize, 0, 0.1) : null,
      down: this.#matrix(allocate, name('down'), intermediateSize, [
        { columns: hiddenSize, deviation: 0.7 / Math.sqrt(intermediateSize) },
      ]),
      downBias: mlpBias ? this.#vector(name('downBias'), hiddenSize, 0, 0.1) : null,
      mlpOutNorm: outNorm('mlpOutNorm'),
    };
  }

  #key(tensor: string): number {
    return hashText(`${this.architecture.name}/${this.seed}/${tensor}`);
  }

  #halfTable(deviation: number): Uint16Array {
    let table = this.#halfTables.get(deviation);
    if (!table) {
      table = uniformTable(deviation);
      this.#halfTables.set(deviation, table);
    }
    return table;
  }

  #floatTable(deviation: number): Float32Array {
    let table = this.#floatTables.get(deviation);
    if (!table) {
      const widen = halfTable();
      table = Float32Array.from(this.#halfTable(deviation), (bits) => widen[bits]!);
      this.#floatTables.set(deviation, table);
    }
    return table;
  }

  /** Values around `mean`, each a half widened to float32. */
  #vector(tensor: string, length: number, mean: number, deviation: number): Float32Array {
    const key = this.#key(tensor);
    const span = deviation * Math.sqrt(3);
    return new Float32Array(length).map((_, i) => {
      const random = (mix((i >>> 1) ^ key) >>> (16 * (i & 1))) & 0xffff;
      return halfToFloat(floatToHalf(mean + halfToFloat(uniformBits(random, span))));
    });
  }

  /** [hidden][vocab] or some of its columns, with the same values as in the whole matrix. */
  #vocabulary(allocate: Allocate, tensor: string, deviation: number, some?: Columns): Matrix {
    const { hiddenSize, vocabSize } = this.architecture;
    const { first, count } = some ?? { first: 0, count: vocabSize };
    const matrix = emptyMatrix(allocate, tensor, this.dtype, hiddenSize, count);
    const place = { first, whole: pad4(vocabSize) };
    this.#fill(matrix, 0, count, this.#key(tensor), deviation, place);
    clear(matrix, count, pad4(count));
    return matrix;
  }

  #matrix(allocate: Allocate, tensor: string, rows: number, ranges: readonly ColumnRange[]): Matrix {
    const columns = sumOf(ranges, (range) => range.columns);
    const key = this.#key(tensor);
    const matrix = emptyMatrix(allocate, tensor, this.dtype, rows, columns);
    const place = { first: 0, whole: pad4(columns) };
    let start = 0;
    for (const range of ranges) {
      // Pairs start at even columns. An odd end spills into the next range, which overwrites it, or into the padding.
      const kept = start % 2 === 1 ? columnOf(matrix, start - 1) : [];
      this.#fill(matrix, start & ~1, start + range.columns, key, range.deviation, place);
      for (const [row, value] of kept.entries()) matrix.data[elementPlace(matrix, row, start - 1)] = value;
      start += range.columns;
    }
    clear(matrix, columns, pad4(columns));
    return matrix;
  }

  /**
   * Fills columns [from, end); `from` is even. A value depends only on its pair's position in the whole matrix, whose
   * rows have `whole` columns. `first`: this matrix's first column in the whole.
   */
  #fill(
    matrix: Matrix,
    from: number,
    end: number,
    key: number,
    deviation: number,
    { first, whole }: { first: number; whole: number },
  ): void {
    const { rows, data } = matrix;
    const halves =
      matrix.dtype === 'f16' ? new Uint32Array(data.buffer, data.byteOffset, data.length / 2) : null;
    for (const part of panelParts(matrix, from, (end - from + 1) & ~1)) {
      const block: Block = {
        rows,
        pairs: part.count / 2,
        at: part.at / 2,
        stride: part.stride / 2,
        counter: (first + part.first) / 2,
        whole: whole / 2,
      };
      if (halves) fillHalf(halves, block, key, this.#halfTable(deviation));
      else fillFloat(data as Float32Array, block, key, this.#floatTable(deviation));
    }
  }
}

const columnOf = (matrix: Matrix, column: number): number[] =>
  Array.from({ length: matrix.rows }, (_, row) => matrix.data[elementPlace(matrix, row, column)]!);

/** Zeroes columns [from, end). */
function clear(matrix: Matrix, from: number, end: number): void {
  for (let column = from; column < end; column++)
    for (let row = 0; row < matrix.rows; row++) matrix.data[elementPlace(matrix, row, column)] = 0;
}
