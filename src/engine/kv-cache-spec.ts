/**
 * Which blocks of a sequence a KV cache group keeps, needs and hands over: everything for a full group, what the window sees
 * for a windowed one. vLLM's rules (single_type_kv_cache_manager.py) as pure functions of lengths.
 */
import type { EngineCoreConfig, KvCacheSpec } from '../config/engine.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

export const FULL_GROUP: readonly KvCacheSpec[] = [{ kind: 'full' }];

/** The groups, treated as full ones if `allFull` (vLLM's --disable-hybrid-kv-cache-manager). */
export const effectiveGroups = (groups: readonly KvCacheSpec[], allFull: boolean): readonly KvCacheSpec[] =>
  allFull
    ? groups.map(({ filled }) => (filled === undefined ? FULL_GROUP[0]! : { kind: 'full', filled }))
    : groups;

/** The groups of engines with these options. Default: one full group. */
export const cacheGroups = (options: {
  kvCacheGroups?: readonly KvCacheSpec[];
  allFullKv?: boolean;
}): readonly KvCacheSpec[] =>
  effectiveGroups(options.kvCacheGroups ?? FULL_GROUP, options.allFullKv ?? false);

/** Bytes that a group's layers use in a block of blockBytes. */
export const filledBytes = ({ filled = 1 }: KvCacheSpec, blockBytes: number): number =>
  Math.round(filled * blockBytes);

/** Number of leading blocks that neither the token at position `next` nor any later one sees. */
export function skippedBlocks(spec: KvCacheSpec, next: number, blockSize: number): number {
  return spec.kind === 'full' ? 0 : Math.floor(Math.max(0, next - spec.window + 1) / blockSize);
}

/** Number of consecutive cached blocks that suffice for a hit of any length; null: all blocks from the start. */
export function hitBlocks(spec: KvCacheSpec, blockSize: number): number | null {
  return spec.kind === 'full' ? null : Math.max(1, Math.ceil((spec.window - 1) / blockSize));
}

/** Most trailing blocks held for a reader. One is extra, as the recomputed last token may be anywhere in its block. */
export function handedOverBlocks(spec: KvCacheSpec, blockSize: number): number {
  return spec.kind === 'full' ? Number.POSITIVE_INFINITY : Math.ceil(spec.window / blockSize) + 1;
}

/** The most blocks of one group that a request occupies at any time until it has KV for numTokens tokens. */
function mostOfGroup(spec: KvCacheSpec, numTokens: number, config: BlockNeeds): number {
  const { blockSize } = config.cache;
  const all = Math.ceil(numTokens / blockSize);
  if (spec.kind === 'full') return all;
  const { maxNumBatchedTokens, maxModelLen } = config.scheduler;
  const visible = Math.min(spec.window - 1 + maxNumBatchedTokens, maxModelLen);
  return Math.min(all, Math.ceil(visible / blockSize) + 1);
}

export interface BlockNeeds {
  cache: Pick<EngineCoreConfig['cache'], 'blockSize' | 'groups'>;
  scheduler: Pick<EngineCoreConfig['scheduler'], 'maxNumBatchedTokens' | 'maxModelLen'>;
}

/** mostOfGroup for each group. A request is admitted only if these are available (vLLM's admission cap). */
export function mostBlocks(numTokens: number, config: BlockNeeds): number[] {
  return config.cache.groups.map((spec) => mostOfGroup(spec, numTokens, config));
}

export const mostBlocksInAll = (numTokens: number, config: BlockNeeds): number =>
  config.cache.groups.reduce((sum, spec) => sum + mostOfGroup(spec, numTokens, config), 0);

/**
 * Whether a table covers numTokens tokens and has every block that the token at `next` and later ones see: no null block
 * from skippedBlocks(next) on.
 */
export function seesAll(
  spec: KvCacheSpec,
  ids: readonly BlockId[],
  next: number,
  numTokens: number,
  blockSize: number,
): boolean {
  const used = ids.slice(skippedBlocks(spec, next, blockSize));
  return ids.length >= Math.ceil(numTokens / blockSize) && !used.includes(NULL_BLOCK);
}
