/** How much of a sequence a store has: the rule of the engines' prefix cache, on the store's keys. */
import type { KvCacheSpec } from '../config/engine.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import { longestHit } from '../engine/prefix-lookup.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from '../engine/types.ts';
import { type StoreKey, storeKey } from './keys.ts';

export interface AskedPrefix {
  hashes: readonly BlockHash[];
  /** What of a prefix each KV cache group must have. */
  groups: readonly KvCacheSpec[];
  /** Blocks: it is to have whole chunks of so many. */
  chunk: number;
  /** Tokens. */
  blockSize: number;
}

/** The longest that is there: ids by group, the null block where none is needed. `idOf`: null for what is not there. */
export function heldPrefix(asked: AskedPrefix, idOf: (key: StoreKey) => BlockId | null): BlockIds {
  const { groups, chunk, blockSize } = asked;
  const getCached = (hash: BlockHash, group: number) => idOf(storeKey(hash, group));
  for (let { hashes } = asked; ; ) {
    const ids = longestHit(groups, hashes, hashes.length, blockSize, getCached);
    const { length } = ids[0]!;
    if (length % chunk === 0) return ids;
    // A shorter one may have no window at its end.
    hashes = hashes.slice(0, length - (length % chunk));
  }
}

/** What is needed of each block in turn. */
export function keysOf(blockIds: BlockIds, hashes: readonly BlockHash[]): StoreKey[] {
  const { length } = blockIds[0]!;
  return hashes
    .slice(0, length)
    .flatMap((hash, i) =>
      blockIds.flatMap((ids, group) => (ids[i] === NULL_BLOCK ? [] : [storeKey(hash, group)])),
    );
}
