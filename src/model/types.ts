/** A decoder-only transformer, as numbers and as weights in the layout that the kernels read. */
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

/** What a token attends to: all before it, or the last `window` tokens, its own included. */
export type LayerAttention = { kind: 'full' } | { kind: 'sliding'; window: number };

/** Of the gate, in the MLP; gelu is the tanh approximation. */
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
  /** By layer; a list that is shorter than the layers begins again (attentionOf). */
  attention: readonly LayerAttention[];
  /** In layers with a window; null: as in the others. */
  slidingRope: Rope | null;
  /** Scores are divided by its square root; null: head_dim. */
  queryPreAttnScalar: number | null;
  activation: Activation;
  /** Embeddings are multiplied by it; the LM head, tied or not, is not. */
  embeddingScale: number;
  /** Norms are stored as what is added to 1 (Gemma); once loaded they are plain. */
  zeroCenteredNorms: boolean;
  /** What attention and the MLP give is normalised before it is added (Gemma). */
  outputNorms: boolean;
  /** Longest sequence, prompt and output together. */
  maxModelLen: number;
  tieWordEmbeddings: boolean;
  /** Biases of q, k, v (Qwen2); of o; of the MLP. */
  qkvBias: boolean;
  oBias: boolean;
  mlpBias: boolean;
  /** RMSNorm of each head of q and k before RoPE (Qwen3). */
  qkNorm: boolean;
  eosTokenIds: readonly number[];
  bosTokenId: number | null;
}

export type WeightDtype = 'f16' | 'f32';

/**
 * A weight matrix [rows = inputs][columns = outputs], i.e. the transpose of a Hugging Face Linear, in panels of columns
 * (panels.ts). Rows and columns are both zero-padded to a multiple of 4: `data` has pad4(rows) * pad4(columns) elements.
 * f16 elements are IEEE half floats in a Uint16Array.
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
  /** Of what attention gives; null without output norms. Hugging Face calls it post_attention_layernorm in Gemma. */
  attentionOutNorm: Float32Array | null;
  /** Before the MLP: post_attention_layernorm, in Gemma pre_feedforward_layernorm. */
  mlpNorm: Float32Array;
  /** Columns: gate, then up. */
  gateUp: Matrix;
  gateUpBias: Float32Array | null;
  down: Matrix;
  downBias: Float32Array | null;
  mlpOutNorm: Float32Array | null;
}

/**
 * Zeros for a matrix's elements: in memory, or in a device's mapped buffer, so that no second copy is made.
 */
export type Allocate = (name: string, dtype: WeightDtype, elements: number) => Uint16Array | Float32Array;

export const inMemory: Allocate = (_, dtype, elements) =>
  dtype === 'f16' ? new Uint16Array(elements) : new Float32Array(elements);

/** Whole panels of a matrix: columns [first, first + count). */
export interface Columns {
  first: number;
  count: number;
}

/** Weights, produced layer by layer so that no second whole copy exists in memory. */
export interface ModelWeights {
  architecture: Architecture;
  dtype: WeightDtype;
  /** [hidden][vocab], or some of its columns: the embedding reads one; with tied embeddings it is the LM head as well. */
  embedding(allocate?: Allocate, columns?: Columns): Promise<Matrix>;
  /** null when tied. */
  lmHead(allocate?: Allocate, columns?: Columns): Promise<Matrix | null>;
  finalNorm(): Promise<Float32Array>;
  layer(index: number, allocate?: Allocate): Promise<LayerWeights>;
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

/** Bytes of one block: blockSize tokens, all layers, K and V. */
export function kvBlockBytes(architecture: Architecture, blockSize: number, kvDtype: WeightDtype): number {
  const { numLayers, numKvHeads, headDim } = architecture;
  return numLayers * 2 * numKvHeads * blockSize * headDim * (kvDtype === 'f16' ? 2 : 4);
}
