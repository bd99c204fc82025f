/**
 * Finds the longest prefix that every KV cache group has cached: vLLM's find_longest_cache_hit, for any number of groups. A
 * full group is searched from the left up to its first gap; a windowed one from the right, until it has as many consecutive
 * blocks as a window sees. Each group may shorten the hit, until all agree. Does not reference any blocks.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { BlockHash } from './block-hash.ts';
import { hitBlocks } from './kv-cache-spec.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

export type GetCached = (hash: BlockHash, group: number) => BlockId | null;

/** Groups with the same hit rule. A block counts as cached if all of them have it. */
export interface GroupKind {
  groups: number[];
  /** Consecutive blocks that make a hit; null: all from the first block on. */
  consecutive: number | null;
}

/**
 * The longest hit among the first `blocks` hashes: positional ids by group, with null blocks before those that a windowed group
 * needs. All lists have the hit's length.
 */
export function longestHit(
  specs: readonly KvCacheSpec[],
  hashes: readonly BlockHash[],
  blocks: number,
  blockSize: number,
  getCached: GetCached,
): BlockId[][] {
  if (specs.every(({ kind }) => kind === 'full')) return fullHit(specs, hashes, blocks, getCached);
  const has = (group: number, i: number) => getCached(hashes[i]!, group) !== null;
  const length = hitLength(groupKinds(specs, blockSize), blocks, has);
  return specs.map((spec, group) => {
    const first = Math.max(0, length - (hitBlocks(spec, blockSize) ?? length));
    return hashes.slice(0, length).map((hash, i) => (i < first ? NULL_BLOCK : getCached(hash, group)!));
  });
}

/** The longest hit among the first `blocks` blocks, in blocks. `has`: whether the group has this block, counted from 0. */
export function hitLength(
  kinds: readonly GroupKind[],
  blocks: number,
  has: (group: number, block: number) => boolean,
): number {
  const allHave = ({ groups }: GroupKind, i: number) => groups.every((group) => has(group, i));
  let length = blocks;
  for (let before = Number.POSITIVE_INFINITY; length < before; ) {
    before = length;
    for (const kind of kinds)
      length = kind.consecutive === null ? fromLeft(kind, length) : fromRight(kind, length);
    if (kinds.length === 1) break;
  }
  return length;

  function fromLeft(kind: GroupKind, length: number): number {
    let end = 0;
    while (end < length && allHave(kind, end)) end++;
    return end;
  }

  function fromRight(kind: GroupKind, length: number): number {
    let run = 0;
    for (let i = length - 1; i >= 0; i--) {
      run = allHave(kind, i) ? run + 1 : 0;
      if (run === kind.consecutive) return i + run;
    }
    // A run that starts at block 0 is a hit of any length.
    return run;
  }
}

/** For full groups only: the hit ends at the first gap in any group. */
function fullHit(
  specs: readonly KvCacheSpec[],
  hashes: readonly BlockHash[],
  blocks: number,
  getCached: GetCached,
): BlockId[][] {
  if (specs.length === 1) return [onlyHit(hashes, blocks, getCached)];
  const hit: BlockId[][] = specs.map(() => []);
  for (let i = 0; i < blocks; i++) {
    for (let group = 0; group < specs.length; group++) {
      const id = getCached(hashes[i]!, group);
      if (id === null) {
        for (const ids of hit) ids.length = i;
        return hit;
      }
      hit[group]!.push(id);
    }
  }
  return hit;
}

/** Reused buffer: growing a new list each time would reallocate it several times. */
const found: BlockId[] = [];

/** For one group, as in nearly every model. */
function onlyHit(hashes: readonly BlockHash[], blocks: number, getCached: GetCached): BlockId[] {
  let length = 0;
  for (; length < blocks; length++) {
    const id = getCached(hashes[length]!, 0);
    if (id === null) break;
    found[length] = id;
  }
  return found.slice(0, length);
}

/** Full groups first: they bound the hit of the others. */
export function groupKinds(specs: readonly KvCacheSpec[], blockSize: number): GroupKind[] {
  const kinds: GroupKind[] = [];
  specs.forEach((spec, group) => {
    const consecutive = hitBlocks(spec, blockSize);
    const same = kinds.find((kind) => kind.consecutive === consecutive);
    if (same) same.groups.push(group);
    else kinds.push({ groups: [group], consecutive });
  });
  return kinds.sort((a, b) => Number(a.consecutive !== null) - Number(b.consecutive !== null));
}
