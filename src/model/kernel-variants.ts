/**
 * Which form of a kernel serves how many rows on this adapter. All forms of a kernel add in the same order, so the choice
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
import { EVERY_KEY } from './layer-attention.ts';
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

export interface AttentionVariant {
  kernel: Kernel;
  /** Flattened rows a workgroup. */
  tileRows: number;
}

/** Attention in parts of the context, a workgroup each, that another kernel adds up: the same bits, more workgroups. */
export interface SplitAttention extends AttentionVariant {
  combine: Kernel;
}

/**
 * Keys a part: attention adds up parts that begin at multiples of it, whoever computes them. A multiple of every subgroup
 * size; short enough that a long context gives many workgroups, long enough that adding up is little beside it.
 */
export const ATTENTION_PART = 256;

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
/** Fixed in shaders/attention_portable.wgsl. */
const PORTABLE_TILE_ROWS = 4;

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

export interface AttentionVariants {
  /** For pieces of one row a request. */
  few: AttentionVariant;
  many: AttentionVariant;
  /** In place of `few` where that has too few workgroups; null: it never has. */
  split: SplitAttention | null;
}

export interface AttentionShape {
  headDim: number;
  blockSize: number;
  kvHeads: number;
  /** Query heads a KV head. */
  group: number;
  kvF32: boolean;
  maxModelLen: number;
}

/**
 * Rows a subgroup serves at once: of pieces of many rows, and of those with one row a sequence, which is `group` query heads of a
 * KV head. Of wide heads 8 are more than registers hold: half as fast, four times as long to compile.
 */
export function tileRowsOf(headDim: number, group: number): { many: number; few: number } {
  const many = headDim > 128 ? 4 : 8;
  return { many, few: fewOf(many, group) };
}

const fewOf = (many: number, group: number): number => Math.min(many, 2 ** Math.ceil(Math.log2(group)));

/** The same of attention_blocked.wgsl: queries fit 4 KiB of workgroup memory, and a tile of keys 8. */
export function blockedTileOf(headDim: number, group: number): { many: number; few: number; keys: number } {
  const most = (bytes: number, limit: number) =>
    Math.min(limit, 2 ** Math.floor(Math.log2(bytes / (4 * headDim))));
  const many = most(4096, 16);
  return { many, few: fewOf(many, group), keys: most(8192, 32) };
}

/** An adapter's attention: all its forms add in one order, which other adapters' forms need not. */
function attentionForm(
  { subgroup, waits }: AdapterForm,
  headDim: number,
  group: number,
): {
  name: 'attention' | 'attentionBlocked' | 'attentionPortable';
  few: number;
  many: number;
  own: (rows: number) => Overrides;
} {
  if (waits) {
    const { keys: KEYS, ...rows } = blockedTileOf(headDim, group);
    return { name: 'attentionBlocked', ...rows, own: (ROWS) => ({ ROWS, KEYS }) };
  }
  if (subgroup === null) {
    return { name: 'attentionPortable', few: PORTABLE_TILE_ROWS, many: PORTABLE_TILE_ROWS, own: () => ({}) };
  }
  const rows = tileRowsOf(headDim, group);
  return { name: 'attention', ...rows, own: (ROWS) => ({ SUBGROUP: subgroup, ROWS }) };
}

/** Makes none of them. */
export function attentionVariants(
  library: KernelLibrary,
  form: AdapterForm,
  { headDim, blockSize, kvHeads, group, kvF32, maxModelLen }: AttentionShape,
): AttentionVariants {
  const { workgroup, enoughWorkgroups } = form;
  const { name, own, few: fewRows, many: manyRows } = attentionForm(form, headDim, group);
  const shape = { HEAD_DIM: headDim, BLOCK_SIZE: blockSize, KV_F32: Number(kvF32), PART: ATTENTION_PART };
  const variant = (tileRows: number, SPLIT: 0 | 1): AttentionVariant => ({
    kernel: library.kernel(name, { ...shape, SPLIT, ...own(tileRows) }),
    tileRows,
  });
  const splitVariant = (): SplitAttention => ({
    ...variant(fewRows, 1),
    combine: library.kernel('attentionCombine', { WORKGROUP: workgroup, PART: ATTENTION_PART }),
  });
  const workgroups = kvHeads * Math.ceil(group / fewRows);
  const splits = maxModelLen > ATTENTION_PART && workgroups < enoughWorkgroups;
  return { few: variant(fewRows, 0), many: variant(manyRows, 0), split: splits ? splitVariant() : null };
}

/** Parts that the keys of a row lie in, at most: `window` of them, the last of a context. */
export function contextParts(longestContext: number, window: number): number {
  return Math.min(Math.ceil(longestContext / ATTENTION_PART), Math.ceil((window - 1) / ATTENTION_PART) + 1);
}

/** Parts of contexts, one a query head, that the device has room for: a bound on memory, whatever the context. */
const MOST_ATTENTION_PARTS = 16_384;

/** The most parts at once, of so many rows of the longest contexts; 0: attention is never split. */
export function mostAttentionParts(
  { split }: AttentionVariants,
  heads: number,
  { rows, maxModelLen, window }: { rows: number; maxModelLen: number; window: number },
): number {
  return split ? Math.min(MOST_ATTENTION_PARTS, rows * heads * contextParts(maxModelLen, window)) : 0;
}

/** Parts to split into; 1: not worth it, or no room for them. A window of one part is never split, wherever it lies. */
export function attentionParts(
  step: { rows: number; longestContext: number; workgroups: number; window?: number },
  heads: number,
  { enoughWorkgroups }: AdapterForm,
): number {
  const { rows, longestContext, workgroups, window = EVERY_KEY } = step;
  const parts = contextParts(longestContext, window);
  const fit = rows * heads * parts <= MOST_ATTENTION_PARTS;
  return workgroups < enoughWorkgroups && window > ATTENTION_PART && fit ? parts : 1;
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
