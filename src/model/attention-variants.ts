/**
 * Which form of attention serves which pieces on this adapter, and when a context is cut into parts. All forms of an adapter add
 * in the same order, so the choice changes speed and no bit. What is fast was measured as in kernel-variants.ts.
 */
import type { Kernel, KernelLibrary, Overrides } from '../gpu/kernels.ts';
import type { AdapterForm } from './kernel-variants.ts';
import { EVERY_KEY } from './layer-attention.ts';

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

/** Fixed in shaders/attention_portable.wgsl. */
const PORTABLE_TILE_ROWS = 4;

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
