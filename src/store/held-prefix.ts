/** Finds how much of a sequence a store has, by the rule of the engines' prefix cache. */
import type { KvCacheSpec } from '../config/engine.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import { longestHit } from '../engine/prefix-lookup.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from '../engine/types.ts';
import { type StoreKey, storeKey } from './keys.ts';

export interface PrefixQuery {
  hashes: readonly BlockHash[];
  /** What each KV cache group must have of a prefix. */
  groups: readonly KvCacheSpec[];
  /** The prefix must be a multiple of this many blocks. */
  chunk: number;
  /** Tokens. */
  blockSize: number;
}

/** The longest prefix present: ids by group, null blocks where none is needed. `idOf` returns null for absent blocks. */
export function heldPrefix(query: PrefixQuery, idOf: (key: StoreKey) => BlockId | null): BlockIds {
  const { groups, chunk, blockSize } = query;
  const getCached = (hash: BlockHash, group: number) => idOf(storeKey(hash, group));
  for (let { hashes } = query; ; ) {
    const ids = longestHit(groups, hashes, hashes.length, blockSize, getCached);
    const { length } = ids[0]!;
    if (length % chunk === 0) return ids;
    // Search again: a shortened prefix may lack the window at its end.
    hashes = hashes.slice(0, length - (length % chunk));
  }
}

/** The keys needed for a prefix, block by block. */
export function keysOf(blockIds: BlockIds, hashes: readonly BlockHash[]): StoreKey[] {
  const { length } = blockIds[0]!;
  return hashes
    .slice(0, length)
    .flatMap((hash, i) =>
      blockIds.flatMap((ids, group) => (ids[i] === NULL_BLOCK ? [] : [storeKey(hash, group)])),
    );
}
