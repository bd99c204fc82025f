/**
 * The reference for the kernels: the model in float64 on the CPU, with its own KV. Written for obvious correctness. It
 * shares only the weights and the RoPE frequencies with the runner.
 */
import { RequestError } from '../../errors.ts';
import { attentionOf, attentionScale, ropeOf, windowOf } from '../architecture/layer-attention.ts';
import { ropeFrequencies } from '../pass/rope.ts';
import type { Architecture, LayerAttention, LayerWeights, ModelWeights } from '../types.ts';
import { floatToHalf, halfTable } from '../weights/half.ts';
import {
  attend,
  type DenseMatrix,
  denseMatrix,
  gatedActivation,
  linear,
  rmsNorm,
  rotate,
} from './oracle-math.ts';

/** The precision that stored K and V are rounded to; f64 does not round. */
export type OracleKvDtype = 'f16' | 'f32' | 'f64';

type DenseLayer = Omit<LayerWeights, 'qkv' | 'o' | 'gateUp' | 'down'> &
  Record<'qkv' | 'o' | 'gateUp' | 'down', DenseMatrix>;

export interface OracleWeights {
  architecture: Architecture;
  /** [vocab][hidden]. */
  embedding: DenseMatrix;
  lmHead: DenseMatrix;
  finalNorm: Float32Array;
  layers: readonly DenseLayer[];
}

/** Reads all weights once; several oracles can share them. */
export async function loadOracleWeights(weights: ModelWeights): Promise<OracleWeights> {
  const embedding = denseMatrix(await weights.embedding());
  const lmHead = await weights.lmHead();
  const layers: DenseLayer[] = [];
  for (let index = 0; index < weights.architecture.numLayers; index++) {
    const layer = await weights.layer(index);
    layers.push({
      ...layer,
      qkv: denseMatrix(layer.qkv),
      o: denseMatrix(layer.o),
      gateUp: denseMatrix(layer.gateUp),
      down: denseMatrix(layer.down),
    });
  }
  return {
    architecture: weights.architecture,
    embedding,
    lmHead: lmHead ? denseMatrix(lmHead) : embedding,
    finalNorm: await weights.finalNorm(),
    layers,
  };
}

/** One head's keys or values, [position][headDim], with spare capacity. */
type HeadStore = Float64Array;

export class Oracle {
  readonly architecture: Architecture;
  #weights: OracleWeights;
  #kvDtype: OracleKvDtype;
  /** RoPE frequencies by kind of layer. */
  #frequencies: Record<LayerAttention['kind'], Float64Array>;
  #capacity = 0;
  #length = 0;
  /** [layer * numKvHeads + head] */
  #keys: HeadStore[] = [];
  #values: HeadStore[] = [];

  constructor(weights: OracleWeights, options: { kvDtype: OracleKvDtype }) {
    this.architecture = weights.architecture;
    this.#weights = weights;
    this.#kvDtype = options.kvDtype;
    const frequencies = (kind: LayerAttention['kind']) =>
      ropeFrequencies({ headDim: this.architecture.headDim, ...ropeOf(this.architecture, kind) });
    this.#frequencies = { full: frequencies('full'), sliding: frequencies('sliding') };
  }

  static async load(weights: ModelWeights, options: { kvDtype: OracleKvDtype }): Promise<Oracle> {
    return new Oracle(await loadOracleWeights(weights), options);
  }

  /** Positions that have KV. */
  get length(): number {
    return this.#length;
  }

  /** Keys (after RoPE) of one layer; each KV head is a [length][headDim] view. */
  keys(layer: number): readonly Float64Array[] {
    return this.#views(this.#keys, layer);
  }

  values(layer: number): readonly Float64Array[] {
    return this.#views(this.#values, layer);
  }

  /**
   * Computes the tokens at startPosition, startPosition + 1, and so on, after dropping any KV from there on.
   * startPosition defaults to `length`. Returns the logits of every row, of the last row (default), or none, each
   * [vocabSize]. Throws RequestError for an empty list, a gap before startPosition, or an id outside the vocabulary.
   */
  forward(
    tokenIds: readonly number[],
    options: { startPosition?: number; logits?: 'all' | 'last' | 'none' } = {},
  ): Float64Array[] {
    const { architecture, layers, embedding } = this.#weights;
    const start = options.startPosition ?? this.#length;
    const rows = tokenIds.length;
    this.#check(tokenIds, start);
    this.#grow(start + rows);
    const { hiddenSize } = architecture;
    const x = new Float64Array(rows * hiddenSize);
    tokenIds.forEach((id, row) => {
      for (let i = 0; i < hiddenSize; i++)
        x[row * hiddenSize + i] = embedding.data[id * hiddenSize + i]! * architecture.embeddingScale;
    });
    layers.forEach((layer, index) => {
      add(x, this.#outNorm(this.#attention(x, rows, start, layer, index), layer.attentionOutNorm));
      const normed = rmsNorm(x, layer.mlpNorm, architecture.rmsNormEps);
      const gateUp = linear(normed, rows, layer.gateUp, layer.gateUpBias);
      const activated = gatedActivation(gateUp, rows, architecture.intermediateSize, architecture.activation);
      add(x, this.#outNorm(linear(activated, rows, layer.down, layer.downBias), layer.mlpOutNorm));
    });
    this.#length = start + rows;
    return this.#logits(x, rows, options.logits ?? 'last');
  }

  #outNorm(delta: Float64Array, weight: Float32Array | null): Float64Array {
    return weight ? rmsNorm(delta, weight, this.architecture.rmsNormEps) : delta;
  }

  #attention(x: Float64Array, rows: number, start: number, layer: DenseLayer, index: number): Float64Array {
    const { numHeads, numKvHeads, headDim, rmsNormEps } = this.architecture;
    const width = (numHeads + 2 * numKvHeads) * headDim;
    const group = numHeads / numKvHeads;
    const frequencies = this.#frequencies[attentionOf(this.architecture, index).kind];
    const seen = { window: windowOf(this.architecture, index), scale: attentionScale(this.architecture) };
    const normed = rmsNorm(x, layer.inputNorm, rmsNormEps);
    const qkv = linear(normed, rows, layer.qkv, layer.qkvBias);
    const head = (row: number, column: number) => {
      const from = row * width + column * headDim;
      return qkv.subarray(from, from + headDim);
    };
    for (let row = 0; row < rows; row++) {
      for (let h = 0; h < numHeads + numKvHeads; h++) {
        const norm = h < numHeads ? layer.qNorm : layer.kNorm;
        if (norm) head(row, h).set(rmsNorm(head(row, h), norm, rmsNormEps));
        rotate(head(row, h), start + row, frequencies);
      }
      for (let h = 0; h < numKvHeads; h++) {
        const at = (start + row) * headDim;
        this.#keys[index * numKvHeads + h]!.set(this.#round(head(row, numHeads + h)), at);
        this.#values[index * numKvHeads + h]!.set(this.#round(head(row, numHeads + numKvHeads + h)), at);
      }
    }
    const context = new Float64Array(rows * numHeads * headDim);
    for (let row = 0; row < rows; row++) {
      for (let h = 0; h < numHeads; h++) {
        const store = index * numKvHeads + Math.floor(h / group);
        const from = (row * numHeads + h) * headDim;
        const out = context.subarray(from, from + headDim);
        attend(head(row, h), this.#keys[store]!, this.#values[store]!, start + row + 1, out, seen);
      }
    }
    return linear(context, rows, layer.o, layer.oBias);
  }

  #logits(x: Float64Array, rows: number, wanted: 'all' | 'last' | 'none'): Float64Array[] {
    const { hiddenSize, vocabSize, rmsNormEps } = this.architecture;
    const first = wanted === 'all' ? 0 : wanted === 'last' ? rows - 1 : rows;
    const normed = rmsNorm(x.subarray(first * hiddenSize), this.#weights.finalNorm, rmsNormEps);
    const logits = linear(normed, rows - first, this.#weights.lmHead, null);
    return Array.from({ length: rows - first }, (_, row) =>
      logits.slice(row * vocabSize, (row + 1) * vocabSize),
    );
  }

  #round(values: Float64Array): Float64Array {
    if (this.#kvDtype === 'f64') return values;
    if (this.#kvDtype === 'f32') return values.map(Math.fround);
    const widen = halfTable();
    return values.map((value) => widen[floatToHalf(value)]!);
  }

  #check(tokenIds: readonly number[], start: number): void {
    const { vocabSize } = this.architecture;
    if (tokenIds.length === 0) throw new RequestError('the oracle was given no tokens: give at least one');
    if (start > this.#length) {
      throw new RequestError(`the oracle has KV for ${this.#length} positions: it cannot start at ${start}`);
    }
    const bad = tokenIds.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    if (bad !== undefined)
      throw new RequestError(`token id ${bad} is outside the vocabulary of ${vocabSize}`);
  }

  #grow(positions: number): void {
    if (positions <= this.#capacity) return;
    const { numLayers, numKvHeads, headDim } = this.architecture;
    this.#capacity = Math.max(positions, 2 * this.#capacity, 64);
    const grown = (old: HeadStore | undefined) => {
      const store = new Float64Array(this.#capacity * headDim);
      if (old) store.set(old);
      return store;
    };
    for (let i = 0; i < numLayers * numKvHeads; i++) {
      this.#keys[i] = grown(this.#keys[i]);
      this.#values[i] = grown(this.#values[i]);
    }
  }

  #views(stores: HeadStore[], layer: number): Float64Array[] {
    const { numKvHeads, headDim } = this.architecture;
    return stores
      .slice(layer * numKvHeads, (layer + 1) * numKvHeads)
      .map((store) => store.subarray(0, this.#length * headDim));
  }
}

/** Index of the largest value; the lowest index if equal. */
export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}

function add(x: Float64Array, delta: Float64Array): void {
  for (let i = 0; i < x.length; i++) x[i]! += delta[i]!;
}
