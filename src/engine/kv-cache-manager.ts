/**
 * Block tables and the prefix cache: which blocks a request has, which it can share, and when a block gets its hash.
 * vLLM's KVCacheManager for full attention groups; ids are per group throughout, a table may hold null ids.
 * Knows nothing of contents, queues or connectors.
 */
import type { CacheConfig } from '../config/engine.ts';
import { invariant } from '../errors.ts';
import { type BlockHash, type BlockHasher, extendHashes } from './block-hash.ts';
import { BlockPool } from './block-pool.ts';
import type { Request } from './request.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from './types.ts';

/** Prefix cache changes, in the terms of vLLM's KV events. */
export type CacheEvent =
  | {
      kind: 'stored';
      group: number;
      blockHashes: readonly BlockHash[];
      parentBlockHash: BlockHash | null;
      tokenIds: readonly number[];
      blockSize: number;
    }
  | { kind: 'removed'; group: number; blockHashes: readonly BlockHash[] }
  | { kind: 'cleared' };

export interface KvCacheDeps {
  config: CacheConfig;
  hasher: BlockHasher;
  numGroups?: number;
  /** Ids of newly allocated blocks (no prefix hits), before anything is written to them. */
  onNewBlocks?: ((group: number, ids: readonly BlockId[]) => void) | undefined;
}

/** A local prefix hit: blocks by group, not yet referenced. Valid until the next allocation. */
export interface PrefixHit {
  blockIds: BlockIds;
  numTokens: number;
}

/** What is cached of a sequence: whole blocks from its start on, with their hashes. */
export interface CachedPrefix extends PrefixHit {
  blockHashes: readonly BlockHash[];
}

export class KvCacheManager {
  readonly blockSize: number;
  /** Told of every change of the prefix cache; null costs nothing. */
  onCacheEvent: ((event: CacheEvent) => void) | null = null;
  /** Told of a request's blocks just before it gives them back. */
  onGivenBack: ((request: Request, blockIds: BlockIds) => void) | null = null;
  readonly #pools: readonly BlockPool[];
  readonly #deps: KvCacheDeps;
  /** Request id to table, by group, and the number of its blocks that were offered to the cache. */
  readonly #tables = new Map<string, { groups: BlockId[][]; numCachedBlocks: number }>();

  constructor(deps: KvCacheDeps) {
    this.#deps = deps;
    this.blockSize = deps.config.blockSize;
    this.#pools = Array.from({ length: deps.numGroups ?? 1 }, (_, group) => {
      const removed = (hash: BlockHash) =>
        this.onCacheEvent?.({ kind: 'removed', group, blockHashes: [hash] });
      return new BlockPool(deps.config.numBlocks, removed);
    });
  }

  /** Blocks that one request can get at best in every group. */
  get numUsable(): number {
    return Math.min(...this.#pools.map((pool) => pool.numUsable));
  }

  get numFree(): number {
    return Math.min(...this.#pools.map((pool) => pool.numFree));
  }

  blocksFor(numTokens: number): number {
    return Math.ceil(numTokens / this.blockSize);
  }

  hasBlocks(request: Request): boolean {
    return this.#tables.has(request.requestId);
  }

  /** The request's table; no blocks when it has none. */
  blockIds(request: Request): BlockIds {
    return this.#tables.get(request.requestId)?.groups ?? this.#pools.map(() => []);
  }

  /** The longest cached prefix in full blocks, at most one token short of the whole: the last must run to give logits. */
  getComputedBlocks(request: Request): PrefixHit {
    const none = { blockIds: this.#pools.map(() => []), numTokens: 0 };
    if (!this.#deps.config.enablePrefixCaching) return none;
    const maxBlocks = Math.floor((request.numTokens - 1) / this.blockSize);
    return this.#longestHit(request.blockHashes(maxBlocks));
  }

  /** What is cached of a sequence, its last block included; changes nothing. */
  lookupPrefix(tokenIds: readonly number[], cacheSalt: string | null): CachedPrefix {
    if (!this.#deps.config.enablePrefixCaching) {
      return { blockIds: this.#pools.map(() => []), numTokens: 0, blockHashes: [] };
    }
    const hashes = this.#hashesOf(tokenIds, cacheSalt);
    const hit = this.#longestHit(hashes);
    return { ...hit, blockHashes: hashes.slice(0, hit.numTokens / this.blockSize) };
  }

  /** The full blocks of this sequence beyond keepTokens lose their hashes: no prefix ends there any more. */
  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keepTokens: number): void {
    for (const hash of this.#hashesOf(tokenIds, cacheSalt).slice(Math.floor(keepTokens / this.blockSize))) {
      for (const pool of this.#pools) {
        for (let id = pool.getCached(hash); id !== null; id = pool.getCached(hash)) pool.evict(id);
      }
    }
  }

  /** Free blocks by group that would be taken, were this hit referenced and the table grown to hold numTokens. */
  blocksNeeded(request: Request, numTokens: number, hit: PrefixHit | null): number[] {
    return this.#pools.map((pool, group) => {
      const have = hit ? hit.blockIds[group]! : this.blockIds(request)[group]!;
      const revived = hit ? have.filter((id) => pool.isFree(id)).length : 0;
      return Math.max(0, this.blocksFor(numTokens) - have.length) + revived;
    });
  }

  /** Whether that many blocks are free in every group. */
  canAllocate(needed: readonly number[]): boolean {
    return this.#pools.every((pool, group) => needed[group]! <= pool.numFree);
  }

  /**
   * Grows the request's table to hold numTokens, first taking over `hit`. False, with nothing changed, when there are not
   * enough free blocks. `delayCaching`: KV comes from elsewhere, so nothing new gets a hash until cacheBlocks is called.
   */
  allocateSlots(request: Request, numTokens: number, hit: PrefixHit | null, delayCaching = false): boolean {
    if (!this.canAllocate(this.blocksNeeded(request, numTokens, hit))) return false;
    let table = this.#tables.get(request.requestId);
    invariant(!table || !hit, () => `${request.requestId}: a prefix hit for a request that has blocks`);
    if (!table) {
      table = { groups: this.#pools.map(() => []), numCachedBlocks: 0 };
      this.#tables.set(request.requestId, table);
    }
    this.#pools.forEach((pool, group) => {
      const ids = table.groups[group]!;
      if (hit) {
        pool.touch(hit.blockIds[group]!);
        ids.push(...hit.blockIds[group]!);
      }
      const fresh = pool.allocate(Math.max(0, this.blocksFor(numTokens) - ids.length));
      ids.push(...fresh);
      if (fresh.length > 0) this.#deps.onNewBlocks?.(group, fresh);
    });
    if (hit) table.numCachedBlocks = hit.numTokens / this.blockSize;
    if (!delayCaching) this.cacheBlocks(request, numTokens);
    return true;
  }

  /** Gives hashes to the full blocks among the first numTokens. Their KV must be there before anyone can read it. */
  cacheBlocks(request: Request, numTokens: number): void {
    if (!this.#deps.config.enablePrefixCaching) return;
    const table = this.#tables.get(request.requestId);
    invariant(table, () => `${request.requestId} has no blocks to cache`);
    const from = table.numCachedBlocks;
    const to = Math.floor(Math.min(numTokens, request.numTokens) / this.blockSize);
    if (to <= from) return;
    const hashes = request.blockHashes(to);
    this.#pools.forEach((pool, group) => {
      const ids = table.groups[group]!.slice(from, to);
      const stored = ids.filter((id, i) => id !== NULL_BLOCK && pool.cache(id, hashes[from + i]!));
      if (stored.length === 0) return;
      this.onCacheEvent?.({
        kind: 'stored',
        group,
        blockHashes: hashes.slice(from),
        parentBlockHash: hashes[from - 1] ?? null,
        tokenIds: request.allTokenIds.slice(from * this.blockSize, to * this.blockSize),
        blockSize: this.blockSize,
      });
    });
    table.numCachedBlocks = to;
  }

  /** Gives every block of the request back; no-op without blocks. */
  free(request: Request): void {
    const table = this.#tables.get(request.requestId);
    if (!table) return;
    this.onGivenBack?.(request, table.groups);
    this.#tables.delete(request.requestId);
    this.#pools.forEach((pool, group) => {
      pool.free(table.groups[group]!);
    });
  }

  /** vLLM's rule: false unless only the null block is in use. */
  resetPrefixCache(): boolean {
    if (this.#pools.some((pool) => pool.numFree !== pool.numUsable)) return false;
    for (const pool of this.#pools) pool.clearHashes();
    this.onCacheEvent?.({ kind: 'cleared' });
    return true;
  }

  /** Throws InternalError unless tables, reference counts, free queues and hashes agree. */
  checkIntegrity(): void {
    this.#pools.forEach((pool, group) => {
      const refs = new Map<BlockId, number>();
      for (const { groups } of this.#tables.values()) {
        for (const id of groups[group]!) if (id !== NULL_BLOCK) refs.set(id, (refs.get(id) ?? 0) + 1);
      }
      pool.checkIntegrity(refs);
    });
  }

  /** Request ids with their tables, as they are now. */
  *tables(): Iterable<readonly [requestId: string, blockIds: BlockIds]> {
    for (const [requestId, { groups }] of this.#tables) yield [requestId, groups];
  }

  blockState(group: number, id: BlockId): ReturnType<BlockPool['state']> {
    return this.#pools[group]!.state(id);
  }

  /** Request ids that have a table. */
  owners(): Iterable<string> {
    return this.#tables.keys();
  }

  /** Full attention: left to right, in every group, up to the first miss. */
  #longestHit(hashes: readonly BlockHash[]): PrefixHit {
    const blockIds: BlockId[][] = this.#pools.map(() => []);
    let numBlocks = 0;
    for (const hash of hashes) {
      const ids = this.#pools.map((pool) => pool.getCached(hash));
      if (ids.includes(null)) break;
      ids.forEach((id, group) => {
        blockIds[group]!.push(id!);
      });
      numBlocks++;
    }
    return { blockIds, numTokens: numBlocks * this.blockSize };
  }

  #hashesOf(tokenIds: readonly number[], cacheSalt: string | null): BlockHash[] {
    const { hasher, config } = this.#deps;
    const hashes: BlockHash[] = [];
    extendHashes(hashes, { tokenIds, cacheSalt }, { hasher, blockSize: config.blockSize }, Infinity);
    return hashes;
  }
}
