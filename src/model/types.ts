/** A decoder-only transformer: its architecture, and its weights in the layout of the kernels. */
import { roundUp } from '../gpu/buffer-size.ts';

export type RopeScaling =
  | { type: 'linear'; factor: number }
  | {
      type: 'llama3';
      factor: number;
      lowFreqFactor: number;
      highFreqFactor: number;
      originalMaxPositionEmbeddings: number;
    };

export interface Rope {
  ropeTheta: number;
  ropeScaling: RopeScaling | null;
}

/** What a token attends to: all earlier tokens, or the last `window` tokens; both include itself. */
export type LayerAttention = { kind: 'full' } | { kind: 'sliding'; window: number };

/** Activation of the MLP's gate; gelu is the tanh approximation. */
export type Activation = 'silu' | 'gelu';

export interface Architecture extends Rope {
  /** 'nano', 'recall', or the directory's name. */
  name: string;
  numLayers: number;
  hiddenSize: number;
  numHeads: number;
  numKvHeads: number;
  headDim: number;
  intermediateSize: number;
  vocabSize: number;
  rmsNormEps: number;
  /** By layer. A shorter list repeats (attentionOf). */
  attention: readonly LayerAttention[];
  /** RoPE of sliding-window layers; null: as in the others. */
  slidingRope: Rope | null;
  /** Scores are divided by its square root; null: by that of headDim. */
  queryPreAttnScalar: number | null;
  activation: Activation;
  /** Factor applied to embeddings, but not to the LM head, tied or not. */
  embeddingScale: number;
  /** Norm weights are stored as offsets from 1 (Gemma). Loading adds the 1. */
  zeroCenteredNorms: boolean;
  /** The outputs of attention and the MLP are normalised before they are added (Gemma). */
  outputNorms: boolean;
  /** Longest sequence, prompt and output together. */
  maxModelLen: number;
  tieWordEmbeddings: boolean;
  /** Biases of q, k, v (Qwen2); of o; of the MLP. */
  qkvBias: boolean;
  oBias: boolean;
  mlpBias: boolean;
  /** RMSNorm of each head of q and k before RoPE (Qwen3, Gemma). */
  qkNorm: boolean;
  eosTokenIds: readonly number[];
}

export type WeightDtype = 'f16' | 'f32';

/**
 * A weight matrix [rows = inputs][columns = outputs], the transpose of a Hugging Face Linear, stored in panels of
 * columns (panels.ts). Rows and columns are zero-padded to a multiple of 4: `data` has pad4(rows) * pad4(columns)
 * elements. f16 elements are IEEE half floats in a Uint16Array.
 */
export type Matrix =
  | { dtype: 'f16'; rows: number; columns: number; data: Uint16Array }
  | { dtype: 'f32'; rows: number; columns: number; data: Float32Array };

export interface LayerWeights {
  inputNorm: Float32Array;
  /** Columns: all q heads, then all k heads, then all v heads. */
  qkv: Matrix;
  qkvBias: Float32Array | null;
  qNorm: Float32Array | null;
  kNorm: Float32Array | null;
  o: Matrix;
  oBias: Float32Array | null;
  /**
   * Norm of attention's output; null without output norms. In Gemma, Hugging Face calls it post_attention_layernorm.
   */
  attentionOutNorm: Float32Array | null;
  /** Norm before the MLP. Hugging Face calls it post_attention_layernorm, in Gemma pre_feedforward_layernorm. */
  mlpNorm: Float32Array;
  /** Columns: gate, then up. */
  gateUp: Matrix;
  gateUpBias: Float32Array | null;
  down: Matrix;
  downBias: Float32Array | null;
  mlpOutNorm: Float32Array | null;
}

/** Allocates a matrix's elements, zeroed: in memory, or in a mapped device buffer, which avoids a second copy. */
export type Allocate = (name: string, dtype: WeightDtype, elements: number) => Uint16Array | Float32Array;

export const inMemory: Allocate = (_, dtype, elements) =>
  dtype === 'f16' ? new Uint16Array(elements) : new Float32Array(elements);

/** Whole panels of a matrix: columns [first, first + count). */
export interface Columns {
  first: number;
  count: number;
}

/** Weights, produced layer by layer so that memory never holds a second complete copy. */
export interface ModelWeights {
  architecture: Architecture;
  dtype: WeightDtype;
  /**
   * [hidden][vocab], or some of its columns; also the LM head if tied. The embedding kernel reads one column per token.
   */
  embedding(allocate?: Allocate, columns?: Columns): Promise<Matrix>;
  /** null if tied. */
  lmHead(allocate?: Allocate, columns?: Columns): Promise<Matrix | null>;
  finalNorm(): Promise<Float32Array>;
  layer(index: number, allocate?: Allocate): Promise<LayerWeights>;
  /** Produces a part that engines share, before it is asked for; false: all are begun. Never rejects. */
  makeAhead?(): Promise<boolean>;
}

/** A matrix of zeros. */
export function emptyMatrix(
  allocate: Allocate,
  name: string,
  dtype: WeightDtype,
  rows: number,
  columns: number,
): Matrix {
  const data = allocate(name, dtype, pad4(rows) * pad4(columns));
  return { dtype, rows, columns, data } as Matrix;
}

export const pad4 = (n: number): number => roundUp(n, 4);

/** Bytes of one block: K and V of blockSize tokens in all layers. */
export function kvBlockBytes(architecture: Architecture, blockSize: number, kvDtype: WeightDtype): number {
  const { numLayers, numKvHeads, headDim } = architecture;
  return numLayers * 2 * numKvHeads * blockSize * headDim * (kvDtype === 'f16' ? 2 : 4);
}
