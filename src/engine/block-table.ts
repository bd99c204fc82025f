/** Functions on block tables: a positional list per group, with null blocks where a windowed group keeps nothing. Pure. */
import type { KvCacheSpec } from '../config/engine.ts';
import { invariant } from '../errors.ts';
import type { BlockHash } from './block-hash.ts';
import { skippedBlocks } from './kv-cache-spec.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from './types.ts';

/**
 * A local prefix hit: positional blocks by group, with null blocks before those that a window needs. The blocks are not yet
 * referenced, so a hit is valid only until the next allocation.
 */
export interface PrefixHit {
  blockIds: BlockIds;
  numTokens: number;
}

/** The cached prefix of a sequence: full blocks from its start, with their hashes. */
export interface CachedPrefix extends PrefixHit {
  blockHashes: readonly BlockHash[];
}

/**
 * The same as groups.map(of). V8's map() returns a different kind of array once it is compiled, so every function that reads
 * the result is compiled again. For per-request lists, that is a large part of the start-up time.
 */
export function byGroup<T, U>(groups: readonly T[], value: (item: T, group: number) => U): U[] {
  // Nearly every model has one group.
  if (groups.length === 1) return [value(groups[0]!, 0)];
  const values: U[] = [];
  for (let group = 0; group < groups.length; group++) values.push(value(groups[group]!, group));
  return values;
}

/** The tail of a positional list: from the first block that is not null and still needed when the token at `next` runs. */
export function neededBlocks(
  spec: KvCacheSpec,
  ids: readonly BlockId[],
  next: number,
  blockSize: number,
): readonly BlockId[] {
  if (spec.kind === 'full') return ids;
  const first = ids.findIndex((id) => id !== NULL_BLOCK);
  return first < 0 ? [] : ids.slice(Math.max(first, skippedBlocks(spec, next, blockSize)));
}

/** The blocks before index `first`, to be freed, as a positional list. Empty if all of them are null. */
export function leavingBlocks(ids: readonly BlockId[], first: number): BlockId[] {
  const leaving = ids.slice(0, first);
  // Nulls come first.
  return (leaving.at(-1) ?? NULL_BLOCK) === NULL_BLOCK ? [] : leaving;
}

/** Counts the table entries of each block. Throws InternalError if a block is in two groups. */
export function referencesOf(
  tables: Iterable<readonly [requestId: string, blockIds: BlockIds]>,
): Map<BlockId, number> {
  const refs = new Map<BlockId, number>();
  const groupOf = new Map<BlockId, number>();
  for (const [requestId, groups] of tables)
    groups.forEach((ids, group) => {
      for (const id of ids) {
        if (id === NULL_BLOCK) continue;
        refs.set(id, (refs.get(id) ?? 0) + 1);
        const other = groupOf.get(id) ?? group;
        groupOf.set(id, group);
        invariant(other === group, () => `${requestId}: block ${id} is in groups ${other} and ${group}`);
      }
    });
  return refs;
}
