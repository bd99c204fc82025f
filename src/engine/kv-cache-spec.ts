/**
 * Which blocks of a sequence a KV cache group keeps, needs and hands over. vLLM's rules (single_type_kv_cache_manager.py) as
 * functions of lengths alone: of a full group everything, of a windowed one what its window sees.
 */
import type { EngineCoreConfig, KvCacheSpec } from '../config/engine.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

export const FULL_GROUP: readonly KvCacheSpec[] = [{ kind: 'full' }];

/** What groups keep where windows may be left aside (vLLM's --disable-hybrid-kv-cache-manager). */
export const keptBy = (groups: readonly KvCacheSpec[], allFull: boolean): readonly KvCacheSpec[] =>
  allFull
    ? groups.map(({ filled }) => (filled === undefined ? FULL_GROUP[0]! : { kind: 'full', filled }))
    : groups;

/** Bytes of a group's layers in a block of blockBytes. */
export const filledBytes = ({ filled = 1 }: KvCacheSpec, blockBytes: number): number =>
  Math.round(filled * blockBytes);

/** The group whose blocks tell how much of a prefix is there: one that keeps all of it, where there is one. */
export const prefixGroup = (groups: readonly KvCacheSpec[]): number =>
  Math.max(
    0,
    groups.findIndex(({ kind }) => kind === 'full'),
  );

/** Leading blocks that neither the token at position `next` nor a later one sees. */
export function skippedBlocks(spec: KvCacheSpec, next: number, blockSize: number): number {
  return spec.kind === 'full' ? 0 : Math.floor(Math.max(0, next - spec.window + 1) / blockSize);
}

/** Cached blocks without a gap that make a hit, however long it is; null: all from the start on. */
export function hitBlocks(spec: KvCacheSpec, blockSize: number): number | null {
  return spec.kind === 'full' ? null : Math.max(1, Math.ceil((spec.window - 1) / blockSize));
}

/** Blocks at the end of a sequence that are left to a reader, at most: the last token is computed again at any place in its block. */
export function handedOverBlocks(spec: KvCacheSpec, blockSize: number): number {
  return spec.kind === 'full' ? Number.POSITIVE_INFINITY : Math.ceil(spec.window / blockSize) + 1;
}

/** Blocks of one group at most, at any time, of a request that comes to have numTokens tokens with KV. */
function mostOfGroup(spec: KvCacheSpec, numTokens: number, config: BlockNeeds): number {
  const { blockSize } = config.cache;
  const all = Math.ceil(numTokens / blockSize);
  if (spec.kind === 'full') return all;
  const { maxNumBatchedTokens, maxModelLen } = config.scheduler;
  const seen = Math.min(spec.window - 1 + maxNumBatchedTokens, maxModelLen);
  return Math.min(all, Math.ceil(seen / blockSize) + 1);
}

export interface BlockNeeds {
  cache: Pick<EngineCoreConfig['cache'], 'blockSize' | 'groups'>;
  scheduler: Pick<EngineCoreConfig['scheduler'], 'maxNumBatchedTokens' | 'maxModelLen'>;
}

/** The same by group. Nobody is let in on less (vLLM's admission cap). */
export function mostBlocks(numTokens: number, config: BlockNeeds): number[] {
  return config.cache.groups.map((spec) => mostOfGroup(spec, numTokens, config));
}

export const mostBlocksInAll = (numTokens: number, config: BlockNeeds): number =>
  config.cache.groups.reduce((sum, spec) => sum + mostOfGroup(spec, numTokens, config), 0);

/**
 * Whether a table has every block that the token at `next` sees before it, of the first numTokens tokens, and none beyond that
 * was left out for a window that was to end further on.
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
