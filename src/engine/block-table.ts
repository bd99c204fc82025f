/** Block tables as lists: positional by group, the null block where a windowed group keeps nothing. Takes and frees none. */
import type { KvCacheSpec } from '../config/engine.ts';
import { invariant } from '../errors.ts';
import type { BlockHash } from './block-hash.ts';
import { skippedBlocks } from './kv-cache-spec.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from './types.ts';

/**
 * A local prefix hit: positional blocks by group, not yet referenced, the null block before what a window needs. Valid until
 * the next allocation.
 */
export interface PrefixHit {
  blockIds: BlockIds;
  numTokens: number;
}

/** What is cached of a sequence: whole blocks from its start on, with their hashes. */
export interface CachedPrefix extends PrefixHit {
  blockHashes: readonly BlockHash[];
}

/**
 * What map() gives, of lists by group. V8's map() makes another kind of array once it is compiled than before, and then all that
 * reads them is compiled anew: of what each request has that is much of a start.
 */
export function byGroup<T, U>(groups: readonly T[], of: (one: T, group: number) => U): U[] {
  // As nearly every model has.
  if (groups.length === 1) return [of(groups[0]!, 0)];
  const made: U[] = [];
  for (let group = 0; group < groups.length; group++) made.push(of(groups[group]!, group));
  return made;
}

/** Of a positional list: the blocks from the first on that is neither null nor skipped when the token at `next` runs. */
export function keptBlocks(
  spec: KvCacheSpec,
  ids: readonly BlockId[],
  next: number,
  blockSize: number,
): readonly BlockId[] {
  if (spec.kind === 'full') return ids;
  const first = ids.findIndex((id) => id !== NULL_BLOCK);
  return first < 0 ? [] : ids.slice(Math.max(first, skippedBlocks(spec, next, blockSize)));
}

/** The part of a list before block `first` that is to be freed: positional, none when nothing of it is left. */
export function leavingBlocks(ids: readonly BlockId[], first: number): BlockId[] {
  const leaving = ids.slice(0, first);
  // Nulls come first.
  return (leaving.at(-1) ?? NULL_BLOCK) === NULL_BLOCK ? [] : leaving;
}

/** In how many tables each block is, by request id; throws InternalError where one is in two groups. */
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
