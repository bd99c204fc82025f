/**
 * Chooses which form of the attention kernel serves which pieces on this adapter, and when to split a context into
 * parts. All forms of one adapter add in the same order, so the choice affects speed and no bit of the result. Speeds
 * were measured on the adapters named in kernel-variants.ts.
 */
import type { Kernel, KernelLibrary, Overrides } from '../../gpu/kernels.ts';
import { EVERY_KEY } from '../architecture/layer-attention.ts';
import type { AdapterForm } from './kernel-variants.ts';

export interface AttentionVariant {
  kernel: Kernel;
  /** Flattened rows (token, query head) per workgroup. */
  tileRows: number;
}

/**
 * Attention over parts of the context, one workgroup each, which a second kernel combines. The bits are the same; there
 * are more workgroups.
 */
export interface SplitAttention extends AttentionVariant {
  combine: Kernel;
}

/**
 * Keys in a part. Every form sums each part separately and then adds the parts in order; parts begin at multiples of
 * this. A multiple of every subgroup size, small enough that a long context gives many workgroups, and large enough
 * that combining costs little.
 */
export const ATTENTION_PART = 256;

/** Fixed in shaders/attention_portable.wgsl. */
const PORTABLE_TILE_ROWS = 4;

export interface AttentionVariants {
  /** For pieces with one row per request. */
  few: AttentionVariant;
  many: AttentionVariant;
  /** Replaces `few` when that has too few workgroups; null: never needed. */
  split: SplitAttention | null;
}

export interface AttentionShape {
  headDim: number;
  blockSize: number;
  kvHeads: number;
  /** Query heads per KV head. */
  group: number;
  kvF32: boolean;
  maxModelLen: number;
}

/**
 * Rows that a subgroup serves at once. `many`: for pieces of many rows. `few`: for one row per sequence, which is the
 * `group` query heads of a KV head. With wide heads, 8 rows exceed the registers: half as fast, and four times as long
 * to compile.
 */
export function tileRowsOf(headDim: number, group: number): { many: number; few: number } {
  const many = headDim > 128 ? 4 : 8;
  return { many, few: fewOf(many, group) };
}

const fewOf = (many: number, group: number): number => Math.min(many, 2 ** Math.ceil(Math.log2(group)));

/** The same for attention_blocked.wgsl: queries must fit 4 KiB of workgroup memory, and a tile of keys 8 KiB. */
export function blockedTileOf(headDim: number, group: number): { many: number; few: number; keys: number } {
  const most = (bytes: number, limit: number) =>
    Math.min(limit, 2 ** Math.floor(Math.log2(bytes / (4 * headDim))));
  const many = most(4096, 16);
  return { many, few: fewOf(many, group), keys: most(8192, 32) };
}

/** The attention kernel of an adapter. All its forms add in one order; those of other adapters may differ. */
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

/** Creates no pipelines. */
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

/** Most parts that the keys of a row can lie in; a row sees the last `window` keys of its context. */
export function contextParts(longestContext: number, window: number): number {
  return Math.min(Math.ceil(longestContext / ATTENTION_PART), Math.ceil((window - 1) / ATTENTION_PART) + 1);
}

/** Most parts, one per query head, that the device has room for. It bounds memory for any context length. */
const MOST_ATTENTION_PARTS = 16_384;

/** The most parts at once, for `rows` rows of the longest contexts; 0: attention is never split. */
export function mostAttentionParts(
  { split }: AttentionVariants,
  heads: number,
  { rows, maxModelLen, window }: { rows: number; maxModelLen: number; window: number },
): number {
  return split ? Math.min(MOST_ATTENTION_PARTS, rows * heads * contextParts(maxModelLen, window)) : 0;
}

/**
 * Parts to split into; 1: splitting does not pay, or there is no room. A window no longer than one part is never split,
 * even if it crosses a boundary.
 */
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
