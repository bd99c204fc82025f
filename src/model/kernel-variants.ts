/**
 * Which form of the matrix kernel serves how many rows on this adapter (of attention: attention-variants.ts). All forms of a kernel add in the same order, so the choice
 * changes speed and no bit. What is fast was measured on lavapipe (8 lanes), SwiftShader (4 lanes) and an NVIDIA H100.
 */
import { invariant, ModelError } from '../errors.ts';
import { isMade, type Kernel, type KernelLibrary, type Overrides } from '../gpu/kernels.ts';
import {
  defaultChoice,
  formOf,
  type GemmAdapter,
  type GemmChoice,
  type GemmForm,
  type GemmKernel,
  mostRows,
  ROW_CLASSES,
  wantsOf,
} from './gemm-forms.ts';
import type { Architecture } from './types.ts';

/** A form of the matrix kernel. */
export interface GemmVariant {
  kernel: Kernel;
  /** Rows and vec4 columns a workgroup computes. */
  rows: number;
  columns4: number;
  /** It is for up to so many rows. */
  upTo: number;
  /** It wants an even number of vec4 columns. */
  evenColumns: boolean;
}

/** Takes note of a kernel that a step would rather have had. */
export type Want = (kernel: Kernel) => void;

export interface AdapterForm extends GemmAdapter {
  /** Threads of a workgroup where any number does. */
  workgroup: number;
  /** The same where threads wait for each other, which costs a software adapter time. */
  reducing: number;
  /** The same along a matrix's columns, of which a GPU wants a whole wave to be busy and a software adapter many pieces. */
  columns: number;
  /** With so many workgroups of attention the adapter is busy: splitting contexts would only add work. */
  enoughWorkgroups: number;
}

/** Fixed in shaders/gemm_portable.wgsl: vec4 columns a thread. */
const PORTABLE_COLUMNS = 2;
/** Fixed in shaders/gemm_tiled.wgsl, gemm_streamed.wgsl and gemm_blocked.wgsl. */
const TILED_COLUMNS = 16;
const STREAMED_COLUMNS = 8;
const BLOCKED_COLUMNS = 32;

/** With few lanes a shuffle costs more than the loads it saves. */
export function adapterForm(subgroupSize: number | null, software: boolean): AdapterForm {
  return {
    subgroup: subgroupSize !== null && subgroupSize >= 8 && subgroupSize <= 64 ? subgroupSize : null,
    workgroup: software ? 64 : 256,
    reducing: software ? Math.max(16, subgroupSize ?? 0) : 256,
    columns: software ? 16 : 64,
    enoughWorkgroups: software ? 2 : 256,
    waits: !software,
  };
}

/**
 * In order of preference: the first that serves is the one to take (gemmFor). oddColumns: some matrix has an odd number of
 * vec4 columns; without one, forms that only such a matrix would need are not compiled.
 */
export function gemmVariants(
  library: KernelLibrary,
  form: AdapterForm,
  weightsF32: boolean,
  oddColumns: boolean,
  choice: GemmChoice = defaultChoice(form),
): GemmVariant[] {
  return ROW_CLASSES.flatMap((rows) => {
    const meant = weightsF32 ? withF32(choice[rows]) : choice[rows];
    const fallback = oddColumns ? withOddColumns(meant) : meant;
    return [...new Set([meant, fallback])].map((chosen) => ({
      ...gemmVariant(library, form, weightsF32, chosen),
      upTo: mostRows(rows),
    }));
  });
}

/** One form, for any number of rows; not made. Throws InternalError when the adapter cannot run it. */
export function gemmVariant(
  library: KernelLibrary,
  { subgroup, columns }: AdapterForm,
  weightsF32: boolean,
  chosen: GemmForm,
): GemmVariant {
  const { name, rows } = formOf(chosen);
  const lanes = subgroup ?? 0;
  const needsLanes = name === 'gemm' || name === 'gemmWide';
  invariant(!needsLanes || subgroup !== null, () => `${chosen} needs subgroups of one size`);
  const sizes = {
    gemm: lanes,
    gemmWide: 2 * lanes,
    gemmPortable: PORTABLE_COLUMNS * columns,
    gemmTiled: TILED_COLUMNS,
    gemmStreamed: STREAMED_COLUMNS,
    gemmBlocked: BLOCKED_COLUMNS,
  };
  const WEIGHTS_F32 = Number(weightsF32);
  const overrides: Record<GemmKernel, Overrides> = {
    gemm: { SUBGROUP: lanes, ROWS: rows, WEIGHTS_F32 },
    gemmWide: { SUBGROUP: lanes, ROWS: rows, WEIGHTS_F32 },
    gemmPortable: { WORKGROUP: columns, ROWS: rows, WEIGHTS_F32 },
    gemmTiled: { ROWS: rows, WEIGHTS_F32 },
    gemmStreamed: { ROWS: rows },
    gemmBlocked: { WEIGHTS_F32 },
  };
  return {
    kernel: library.kernel(name, overrides[name]),
    rows,
    columns4: sizes[name],
    upTo: Number.POSITIVE_INFINITY,
    evenColumns: wantsOf(name).evenColumns,
  };
}

/** The form that takes its place where a matrix has an odd number of vec4 columns. */
function withOddColumns(chosen: GemmForm): GemmForm {
  if (chosen === 'gemmWide 1') return 'gemmPortable 1';
  return chosen === 'gemmWide 4' ? 'gemm 4' : withF32(chosen);
}

/** The same where weights are f32. */
function withF32(chosen: GemmForm): GemmForm {
  const { name, rows } = formOf(chosen);
  return wantsOf(name).halves ? (`gemmPortable ${rows}` as GemmForm) : chosen;
}

const serves = ({ evenColumns }: GemmVariant, columns4: number): boolean =>
  !evenColumns || columns4 % 2 === 0;

const meantFor = (variants: readonly GemmVariant[], rows: number, columns4: number) =>
  variants.find((form) => rows <= form.upTo && serves(form, columns4));

/** The form for so many rows of a matrix, made or not. */
export function gemmFor(variants: readonly GemmVariant[], rows: number, columns4: number): GemmVariant {
  return meantFor(variants, rows, columns4)!;
}

/** The same of those that are made, of which there must be one: any serves any number of rows. The other is wanted. */
export function madeGemmFor(
  variants: readonly GemmVariant[],
  rows: number,
  columns4: number,
  want: Want,
): GemmVariant {
  // None is meant where forms of few rows stand in for those of many.
  const meant = meantFor(variants, rows, columns4);
  if (meant && isMade(meant.kernel)) return meant;
  if (meant) want(meant.kernel);
  const made = variants.filter((form) => isMade(form.kernel) && serves(form, columns4));
  return made.find(({ upTo }) => rows <= upTo) ?? made.at(-1)!;
}

/** What a subgroup of 8 lanes keeps of 8 rows in shaders/attention.wgsl. */
const MOST_HEAD_DIM = 256;

/** Threads of the rope kernel for a row: one for 8 values of a head, or for 4 where half a head is no whole number of vec4s. */
export function ropeThreads(columns: number, headDim: number): number {
  return headDim % 8 === 0 ? columns / 8 : columns / 4;
}

/** Throws ModelError for a shape that no form of the kernels serves. */
export function checkKernelsServe({ name, headDim, numHeads, numKvHeads }: Architecture): void {
  if (headDim % 4 !== 0 || headDim > MOST_HEAD_DIM || numHeads % numKvHeads !== 0) {
    throw new ModelError(
      `${name} has ${numHeads} query heads, ${numKvHeads} KV heads and head_dim ${headDim}: wanted query heads in a ` +
        `multiple of the KV heads, and a head_dim that is a multiple of 4 and at most ${MOST_HEAD_DIM}; use another model`,
    );
  }
}
