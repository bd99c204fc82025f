/**
 * The kernels of a forward pass, and which of them an engine creates first. They depend on the model's shape and the
 * adapter, not on the weights.
 */
import type { Kernel, KernelLibrary } from '../../gpu/kernels.ts';
import { type Architecture, pad4 } from '../types.ts';
import { matricesOf } from '../weights/matrices.ts';
import { type AttentionVariants, attentionVariants } from './attention-variants.ts';
import { type FusedKernels, fusedKernels } from './fused-kernels.ts';
import type { GemmChoice } from './gemm-forms.ts';
import { type AdapterForm, type GemmVariant, gemmVariants } from './kernel-variants.ts';

export interface PassKernels {
  gemm: readonly GemmVariant[];
  /** For few rows; null: kernels are not fused. */
  fused: FusedKernels | null;
  attention: AttentionVariants;
  embed: Kernel;
  norm: Kernel;
  /** As `norm`, but added to the output; null for a model without output norms. */
  addNorm: Kernel | null;
  /** As `norm`, for the rows that get logits. */
  logitNorm: Kernel;
  rope: Kernel;
  swiglu: Kernel;
  sample: Kernel;
}

export interface PassKernelShape {
  architecture: Architecture;
  blockSize: number;
  maxModelLen: number;
  weightsF32: boolean;
  kvF32: boolean;
  /** null: the adapter's default forms. */
  gemm: GemmChoice | null;
  /** Whether to fuse kernels for few rows where possible. */
  fuse: boolean;
}

/** Creates no pipelines. */
export function createPassKernels(
  library: KernelLibrary,
  form: AdapterForm,
  { architecture, blockSize, maxModelLen, weightsF32, kvF32, gemm: choice, fuse }: PassKernelShape,
): PassKernels {
  const { headDim, numHeads, numKvHeads } = architecture;
  const WORKGROUP = form.workgroup;
  const WEIGHTS_F32 = Number(weightsF32);
  const KV_F32 = Number(kvF32);
  const group = numHeads / numKvHeads;
  const norm = (ADD: number, GATHER: number) =>
    library.kernel('rmsNorm', { SUMS: form.reducing, ADD, GATHER });
  const gemm = gemmVariants(library, form, weightsF32, columnsOf(architecture), choice ?? undefined);
  return {
    gemm,
    fused: fuse ? fusedKernels(library, form, gemm, { architecture, blockSize, kvF32 }) : null,
    attention: attentionVariants(library, form, {
      headDim,
      blockSize,
      kvHeads: numKvHeads,
      group,
      kvF32,
      maxModelLen,
    }),
    embed: library.kernel('embedding', { WORKGROUP, WEIGHTS_F32 }),
    norm: norm(0, 0),
    addNorm: architecture.outputNorms ? norm(1, 0) : null,
    logitNorm: norm(0, 1),
    rope: library.kernel('ropeKvWrite', {
      WORKGROUP,
      HEAD_DIM: headDim,
      BLOCK_SIZE: blockSize,
      KV_F32,
      QK_NORM: Number(architecture.qkNorm),
    }),
    swiglu: library.kernel('swiglu', { WORKGROUP, GELU: Number(architecture.activation === 'gelu') }),
    sample: library.kernel('sample', { WORKGROUP: form.sampling }),
  };
}

/**
 * The kernels that an engine creates before it serves. 'all': every kernel. 'prompts': those for many rows, which serve
 * few rows nearly as well. 'one row': those for one row; others are created once a step would be faster with them. Each
 * set can compute anything.
 */
export type KernelSet = 'all' | 'prompts' | 'one row';

/** `shared`: kernels that engines with another set have too; `own`: the rest. */
export function kernelsOf(set: KernelSet, all: PassKernels): { own: Kernel[]; shared: Kernel[] } {
  const { gemm, fused, attention, norm, addNorm, rope, swiglu } = all;
  const upTo = (rows: number, forms: readonly GemmVariant[]): Kernel[] =>
    forms.filter((form) => form.upTo === rows).map(({ kernel }) => kernel);
  const shared = [all.embed, all.logitNorm, all.sample, ...(addNorm ? [addNorm] : []), ...upTo(1, gemm)];
  const apart = [norm, rope, swiglu];
  const prompts = [...apart, ...upTo(Number.POSITIVE_INFINITY, gemm), attention.many.kernel];
  const matrices = fused ? [fused.qkv, fused.gateUp] : [];
  const split = attention.split ? [attention.split.kernel, attention.split.combine] : [];
  const oneRow = [
    ...matrices.flatMap(({ variants }) => upTo(1, variants)),
    ...(fused ? [...(fused.qkv.whole ? [] : [rope]), ...(fused.gateUp.whole ? [] : [swiglu])] : apart),
    ...[attention.few.kernel, ...split],
  ];
  const rest = [...gemm, ...matrices.flatMap(({ variants }) => variants)].map(({ kernel }) => kernel);
  const own = { all: [...oneRow, ...prompts, ...rest], prompts, 'one row': oneRow }[set];
  return { own: [...new Set(own)].filter((kernel) => !shared.includes(kernel)), shared };
}

/** Columns of each matrix, in vec4s. */
export const columnsOf = (architecture: Architecture): number[] =>
  Object.values(matricesOf(architecture)).map(({ outputs }) => pad4(outputs) / 4);
