/** Finds the cached prefix of a sequence by its block hashes; a windowed KV cache group needs only what its window sees. */
import type { CacheConfig } from '../config/engine.ts';
import type { TokenIds } from '../config/token-ids.ts';
import { type BlockHash, type BlockHasher, extendHashes } from './block-hash.ts';
import type { BlockPool } from './block-pool.ts';
import { byGroup, type CachedPrefix, type PrefixHit } from './block-table.ts';
import { longestHit } from './prefix-lookup.ts';
import type { Request } from './request.ts';
import type { BlockId } from './types.ts';

export class CachedPrefixes {
  readonly #config: CacheConfig;
  readonly #hasher: BlockHasher;
  readonly #pool: BlockPool;
  readonly #getCached = (hash: BlockHash, group: number): BlockId | null => this.#pool.getCached(hash, group);
  /** The last hit: asked for again while the first waiting request waits for blocks. */
  #lastLookup: { request: Request; numTokens: number; nameChanges: number; hit: PrefixHit } | null = null;

  constructor(config: CacheConfig, hasher: BlockHasher, pool: BlockPool) {
    this.#config = config;
    this.#hasher = hasher;
    this.#pool = pool;
  }

  /** The longest cached prefix, in full blocks. Never the whole request: the last token must run to produce logits. */
  of(request: Request): PrefixHit {
    const { enablePrefixCaching, blockSize } = this.#config;
    if (!enablePrefixCaching) return this.#noHit();
    const { numTokens } = request;
    const { nameChanges } = this.#pool;
    const last = this.#lastLookup;
    if (last?.request === request && last.numTokens === numTokens && last.nameChanges === nameChanges)
      return last.hit;
    const blocks = Math.floor((numTokens - 1) / blockSize);
    const hit = this.#longestHit(request.hashesOfFirst(blocks), blocks);
    this.#lastLookup = { request, numTokens, nameChanges, hit };
    return hit;
  }

  /** The cached prefix of a sequence, including its last block if full. Changes nothing. */
  lookup(tokenIds: TokenIds, cacheSalt: string | null): CachedPrefix {
    const { enablePrefixCaching, blockSize } = this.#config;
    if (!enablePrefixCaching) return { ...this.#noHit(), blockHashes: [] };
    const hashes = this.#hashesOf(tokenIds, cacheSalt);
    const hit = this.#longestHit(hashes, hashes.length);
    return { ...hit, blockHashes: hashes.slice(0, hit.numTokens / blockSize) };
  }

  /** Removes the hashes of this sequence's full blocks beyond keepTokens, so that no prefix hit extends past it. */
  forget(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): void {
    const { blockSize, groups } = this.#config;
    const pool = this.#pool;
    for (const hash of this.#hashesOf(tokenIds, cacheSalt).slice(Math.floor(keepTokens / blockSize))) {
      for (const group of groups.keys()) {
        for (let id = pool.getCached(hash, group); id !== null; id = pool.getCached(hash, group))
          pool.evict(id);
      }
    }
  }

  #noHit(): PrefixHit {
    return { blockIds: byGroup(this.#config.groups, () => []), numTokens: 0 };
  }

  #longestHit(hashes: readonly BlockHash[], blocks: number): PrefixHit {
    const { groups, blockSize } = this.#config;
    const blockIds = longestHit(groups, hashes, blocks, blockSize, this.#getCached);
    return { blockIds, numTokens: blockIds[0]!.length * blockSize };
  }

  #hashesOf(tokenIds: TokenIds, cacheSalt: string | null): BlockHash[] {
    const hashes: BlockHash[] = [];
    const { blockSize } = this.#config;
    extendHashes(hashes, { tokenIds, cacheSalt }, { hasher: this.#hasher, blockSize }, Infinity);
    return hashes;
  }
}
