/**
 * The longest prefix that every KV cache group has cached: vLLM's find_longest_cache_hit, for any number of groups. A full
 * group is looked through from the left up to its first gap, a windowed one from the right, until it has what a window sees.
 * Each shortens what the others have, until all agree. Takes nothing.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { BlockHash } from './block-hash.ts';
import { hitBlocks } from './kv-cache-spec.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

export type GetCached = (hash: BlockHash, group: number) => BlockId | null;

/** Groups of one kind, whose blocks count together. */
interface Kind {
  groups: number[];
  /** Blocks that make a hit; null: all from the first on. */
  wanted: number | null;
}

/** Of the first `blocks` of the hashes: positional ids by group, null before what a windowed group needs; all lists have the hit's length. */
export function longestHit(
  specs: readonly KvCacheSpec[],
  hashes: readonly BlockHash[],
  blocks: number,
  blockSize: number,
  getCached: GetCached,
): BlockId[][] {
  if (specs.every(({ kind }) => kind === 'full')) return fullHit(specs, hashes, blocks, getCached);
  const kinds = kindsOf(specs, blockSize);
  const has = (kind: Kind, i: number) => kind.groups.every((group) => getCached(hashes[i]!, group) !== null);
  let length = blocks;
  for (let before = Number.POSITIVE_INFINITY; length < before; ) {
    before = length;
    for (const kind of kinds)
      length = kind.wanted === null ? fromLeft(kind, length) : fromRight(kind, length);
    if (kinds.length === 1) break;
  }
  return specs.map((spec, group) => {
    const first = Math.max(0, length - (hitBlocks(spec, blockSize) ?? length));
    return hashes.slice(0, length).map((hash, i) => (i < first ? NULL_BLOCK : getCached(hash, group)!));
  });

  function fromLeft(kind: Kind, length: number): number {
    let end = 0;
    while (end < length && has(kind, end)) end++;
    return end;
  }

  function fromRight(kind: Kind, length: number): number {
    let run = 0;
    for (let i = length - 1; i >= 0; i--) {
      run = has(kind, i) ? run + 1 : 0;
      if (run === kind.wanted) return i + run;
    }
    // A leading run needs no more than it is.
    return run;
  }
}

/** Of groups that all keep everything: up to the first gap of any. */
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

/** Where ids are gathered: a list that grows is made several times over. */
const found: BlockId[] = [];

/** Of one group, as nearly every model has. */
function onlyHit(hashes: readonly BlockHash[], blocks: number, getCached: GetCached): BlockId[] {
  let length = 0;
  for (; length < blocks; length++) {
    const id = getCached(hashes[length]!, 0);
    if (id === null) break;
    found[length] = id;
  }
  return found.slice(0, length);
}

/** Full groups first: they bound the others. */
function kindsOf(specs: readonly KvCacheSpec[], blockSize: number): Kind[] {
  const kinds: Kind[] = [];
  specs.forEach((spec, group) => {
    const wanted = hitBlocks(spec, blockSize);
    const same = kinds.find((kind) => kind.wanted === wanted);
    if (same) same.groups.push(group);
    else kinds.push({ groups: [group], wanted });
  });
  return kinds.sort((a, b) => Number(a.wanted !== null) - Number(b.wanted !== null));
}
