/** The matrices of a model, from its architecture alone, under the names used for kernels, buffers and errors. */
import type { UniformValues } from '../../gpu/uniforms.ts';
import type { Architecture } from '../types.ts';
import { PANEL_COLUMNS } from './panels.ts';

export type MatrixName = 'qkv' | 'o' | 'gate up' | 'down' | 'lm head';

/** Unpadded sizes; storage pads them. */
export interface MatrixShape {
  inputs: number;
  outputs: number;
  bias: boolean;
}

/** The matrices of one layer, and the LM head, which is the embedding itself if tied. */
export function matricesOf(a: Architecture): Readonly<Record<MatrixName, MatrixShape>> {
  const heads = a.numHeads * a.headDim;
  return {
    qkv: { inputs: a.hiddenSize, outputs: heads + 2 * a.numKvHeads * a.headDim, bias: a.qkvBias },
    o: { inputs: heads, outputs: a.hiddenSize, bias: a.oBias },
    'gate up': { inputs: a.hiddenSize, outputs: 2 * a.intermediateSize, bias: a.mlpBias },
    down: { inputs: a.intermediateSize, outputs: a.hiddenSize, bias: a.mlpBias },
    'lm head': { inputs: a.hiddenSize, outputs: a.vocabSize, bias: false },
  };
}

/** Uniforms of the matrix kernel for a product that fills its whole output, for every row. Sizes in vec4s. */
export function plainProduct(inputs4: number, columns4: number): UniformValues<'gemm'> {
  return {
    ...{ inputs4, columns4, stride4: columns4, first4: 0, panel4: PANEL_COLUMNS / 4 },
    ...{ use_bias: 0, add: 0, count: 0, inputs: 4 * inputs4, eps: 0 },
  };
}
