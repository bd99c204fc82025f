/**
 * The minimal work of a kernel for a piece, for any form: floating-point operations, and bytes if each operand is read
 * once and each result written once. With few rows, fused kernels also do neighbouring steps; that is small compared
 * with the weights and is not counted. Used by profiles only, never by the scheduler.
 */

import { windowOf } from '../architecture/layer-attention.ts';
import { contextParts } from '../kernels/attention-variants.ts';
import type { Architecture } from '../types.ts';
import { type MatrixShape, matricesOf } from '../weights/matrices.ts';
import { attendedKeys, type Piece } from './step-inputs.ts';

export interface KernelCost {
  flops: number;
  bytes: number;
}

export interface CostShapes {
  architecture: Architecture;
  /** Bytes of one weight, and of one value of K or V. */
  weightBytes: number;
  kvBytes: number;
  /** Pieces of the embedding and the LM head, one dispatch each. */
  vocabularyPieces: number;
}

const F32 = 4;

/** Splits a label: 'layer 3 qkv' is kernel 'qkv' of layer 3. `layer` is null for kernels outside layers. */
export function kernelPlace(label: string): { kernel: string; layer: number | null } {
  const [, layer, kernel = label] = /^layer (\d+) (.*)$/.exec(label) ?? [];
  return { kernel, layer: layer === undefined ? null : Number(layer) };
}

export function kernelCost(
  { kernel, layer }: ReturnType<typeof kernelPlace>,
  piece: Piece,
  shapes: CostShapes,
): KernelCost {
  const { architecture, weightBytes, kvBytes } = shapes;
  const { hiddenSize, numHeads, numKvHeads, headDim, intermediateSize, vocabSize } = architecture;
  const matrices = matricesOf(architecture);
  const window = windowOf(architecture, layer ?? 0);
  const rows = piece.numRows;
  const logitRows = piece.logitRows.length;
  const multiply = (m: number, { inputs: k, outputs: n }: MatrixShape): KernelCost => ({
    flops: 2 * m * k * n,
    bytes: k * n * weightBytes + m * (k + n) * F32,
  });
  /** An elementwise kernel. `touched`: elements read or written per value; `operations`: operations per value. */
  const pass = (values: number, touched: number, operations = touched): KernelCost => ({
    flops: values * operations,
    bytes: values * touched * F32,
  });
  switch (kernel) {
    case 'qkv':
    case 'gate up':
      return multiply(rows, matrices[kernel]);
    case 'o':
    case 'down': {
      const { flops, bytes } = multiply(rows, matrices[kernel]);
      // The product is added to the residual, unless a norm follows.
      const added = architecture.outputNorms ? 0 : rows * matrices[kernel].outputs;
      return { flops: flops + added, bytes: bytes + added * F32 };
    }
    case 'lm head':
      return multiply(logitRows, {
        ...matrices[kernel],
        outputs: matrices[kernel].outputs / shapes.vocabularyPieces,
      });
    case 'attention': {
      const keys = piece.spans.reduce((sum, span) => sum + keysOf(piece, span, window), 0);
      return {
        flops: 4 * numHeads * headDim * attendedKeys(piece, window),
        bytes: keys * 2 * numKvHeads * headDim * kvBytes + 2 * rows * numHeads * headDim * F32,
      };
    }
    case 'attention combine':
      return pass(rows * numHeads * headDim * contextParts(piece.longestContext, window), 1, 3);
    case 'rope': {
      const values = rows * matrices.qkv.outputs;
      const q = rows * numHeads * headDim;
      return { flops: 3 * values, bytes: (values + q) * F32 + (values - q) * kvBytes };
    }
    case 'swiglu':
      return pass(rows * intermediateSize, 3, 5);
    case 'embedding':
      return { flops: 0, bytes: (rows * hiddenSize * (weightBytes + F32)) / shapes.vocabularyPieces };
    case 'final norm':
      return pass(logitRows * hiddenSize, 2, 4);
    case 'o norm':
    case 'down norm':
      // Also added to the residual.
      return pass(rows * hiddenSize, 3, 5);
    case 'sample':
      return pass(logitRows * vocabSize, 1, 4);
    default:
      // The other norms.
      return pass(rows * hiddenSize, 2, 4);
  }
}

/** Keys that at least one row of the span attends to. */
function keysOf(
  { groups: [{ tokens }] }: Piece,
  { firstRow, rows }: Piece['spans'][number],
  window: number,
): number {
  return Math.min(tokens[4 * (firstRow + rows - 1) + 1]! + 1, window + rows - 1);
}
