/**
 * Block tables and the prefix cache: which blocks a request has, which it can share, and when a block gets its hash. This is
 * vLLM's KVCacheManager: one pool serves all KV cache groups. A table has one positional list per group, with the null block
 * where the window has moved past. Knows nothing about block contents, queues or connectors.
 */

import type { CacheConfig, KvCacheSpec, SchedulerConfig } from '../config/engine.ts';
import type { TokenIds } from '../config/token-ids.ts';
import { invariant } from '../errors.ts';
import type { BlockHash, BlockHasher } from './block-hash.ts';
import { BlockPool } from './block-pool.ts';
import type { BlockResidency } from './block-residency.ts';
import {
  byGroup,
  type CachedPrefix,
  leavingBlocks,
  neededBlocks,
  type PrefixHit,
  referencesOf,
} from './block-table.ts';
import type { CacheEvent } from './cache-event.ts';
import { CachedPrefixes } from './cached-prefixes.ts';
import { handedOverBlocks, mostBlocks, seesAll, skippedBlocks } from './kv-cache-spec.ts';
import type { Request } from './request.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from './types.ts';

export interface KvCacheDeps {
  config: CacheConfig;
  scheduler: SchedulerConfig;
  hasher: BlockHasher;
  /** Ids of newly allocated blocks (no prefix hits), before anything is written to them. */
  onNewBlocks?: ((group: number, ids: readonly BlockId[]) => void) | undefined;
  /** Records how long blocks stay cached. Ignored without prefix caching. */
  residency?: BlockResidency | undefined;
}

interface Table {
  /** Replaced, never modified in place: callers may keep a reference. */
  groups: BlockIds;
  /** Leading blocks of each group that cacheBlocks has handled. */
  numCachedBlocks: number;
}

export class KvCacheManager {
  readonly blockSize: number;
  /** Called just before a request's blocks are freed. The lists are positional, with the null block where a block is kept. */
  onBlocksFreed: ((request: Request, blockIds: BlockIds) => void) | null = null;
  /** Most blocks in use at the same time so far. */
  peakUsed = 0;
  #onCacheEvent: ((event: CacheEvent) => void) | null = null;
  readonly #pool: BlockPool;
  readonly #prefixes: CachedPrefixes;
  readonly #deps: KvCacheDeps;
  readonly #groups: CacheConfig['groups'];
  /** Some group is windowed: it frees blocks while the request runs. */
  readonly #hasWindows: boolean;
  /** By request id. */
  readonly #tables = new Map<string, Table>();

  constructor(deps: KvCacheDeps) {
    this.#deps = deps;
    this.blockSize = deps.config.blockSize;
    this.#groups = deps.config.groups;
    this.#hasWindows = this.#groups.some(({ kind }) => kind !== 'full');
    const { numBlocks, enablePrefixCaching } = deps.config;
    const residency = (enablePrefixCaching && deps.residency) || null;
    this.#pool = new BlockPool(numBlocks, residency);
    this.#prefixes = new CachedPrefixes(deps.config, deps.hasher, this.#pool);
  }

  /** Called on every change to the prefix cache. No cost if null. */
  set onCacheEvent(listener: ((event: CacheEvent) => void) | null) {
    this.#onCacheEvent = listener;
    this.#pool.onRemoved =
      listener && ((hash, group) => listener({ kind: 'removed', group, blockHashes: [hash] }));
  }

  /** The hashes of all cached blocks, by group. */
  cachedHashes(): BlockHash[][] {
    return this.#pool.hashes(this.numGroups);
  }

  /** The most blocks that one request can get, over all groups. */
  get numUsable(): number {
    return this.#pool.numUsable;
  }

  get numFree(): number {
    return this.#pool.numFree;
  }

  get numGroups(): number {
    return this.#groups.length;
  }

  blocksFor(numTokens: number): number {
    return Math.ceil(numTokens / this.blockSize);
  }

  hasBlocks(request: Request): boolean {
    return this.#tables.has(request.requestId);
  }

  /** The request's table; empty lists if it has none. */
  blockIds(request: Request): BlockIds {
    return this.#tables.get(request.requestId)?.groups ?? byGroup(this.#groups, () => []);
  }

  /** Whether the request's table covers numTokens tokens and has every block that the token at `next` sees. */
  sees(request: Request, next: number, numTokens: number): boolean {
    const ids = this.blockIds(request);
    return this.#groups.every((spec, group) => seesAll(spec, ids[group]!, next, numTokens, this.blockSize));
  }

  /** The longest cached prefix, in full blocks. Never the whole request: the last token must run to produce logits. */
  getComputedBlocks(request: Request): PrefixHit {
    return this.#prefixes.of(request);
  }

  /** The cached prefix of a sequence, including its last block if full. Changes nothing. */
  lookupPrefix(tokenIds: TokenIds, cacheSalt: string | null): CachedPrefix {
    return this.#prefixes.lookup(tokenIds, cacheSalt);
  }

  /** Removes the hashes of this sequence's full blocks beyond keepTokens, so that no prefix hit extends past it. */
  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): void {
    this.#prefixes.forget(tokenIds, cacheSalt, keepTokens);
  }

  /**
   * The most free blocks that the request takes until all its tokens have KV. At admission, `hit` is its local prefix hit,
   * and `computed` counts hit and loaded tokens. Later, `hit` is null and the count is what its table lacks.
   */
  maxBlocksNeeded(request: Request, hit: PrefixHit | null, computed: number): number {
    const have = hit?.blockIds ?? this.blockIds(request);
    if (!this.#hasWindows) {
      const all = this.blocksFor(request.numTokens);
      let needed = 0;
      for (const ids of have) needed += Math.max(0, all - ids.length) + (hit ? this.#numFree(ids) : 0);
      return needed;
    }
    const most = mostBlocks(request.numTokens, { cache: this.#deps.config, scheduler: this.#deps.scheduler });
    const next = Math.min(computed, request.numTokens - 1);
    return this.#groups.reduce((sum, spec, group) => {
      const ids = neededBlocks(spec, have[group]!, next, this.blockSize);
      return sum + Math.max(0, most[group]! - ids.length) + (hit ? this.#numFree(ids) : 0);
    }, 0);
  }

  canAllocate(needed: number): boolean {
    return needed <= this.#pool.numFree;
  }

  /**
   * Grows the request's table to hold numNew tokens after the numComputed ones (at admission: hit and loaded tokens). First
   * frees blocks that have left their window. Returns false if there are too few free blocks; nothing else has changed then.
   * `delayCaching`: KV will be loaded, so no new block gets a hash until cacheBlocks is called.
   */
  allocateSlots(
    request: Request,
    numComputed: number,
    numNew: number,
    hit: PrefixHit | null = null,
    delayCaching = false,
  ): boolean {
    const numTokens = numComputed + numNew;
    // The last token is always run, and its window reaches one token further back than the next one's.
    const next = Math.min(numComputed, request.numTokens - 1);
    const table = this.#tables.get(request.requestId);
    invariant(!table || !hit, () => `${request.requestId}: a prefix hit for a request that has blocks`);
    if (table && !this.#hasWindows && table.groups[0]!.length >= this.blocksFor(numTokens)) {
      if (!delayCaching) this.cacheBlocks(request, numTokens);
      return true;
    }
    if (table) this.#freeLeading(request, (spec) => skippedBlocks(spec, next, this.blockSize));
    const have = table?.groups ?? hit?.blockIds ?? byGroup(this.#groups, () => []);
    if (!this.canAllocate(this.#needed(have, next, numTokens, hit !== null))) return false;
    if (table) table.groups = this.#extended(table.groups, numTokens);
    else {
      // Take the hits of all groups before allocating, so that no group's hit is allocated to another group.
      const groups = this.#extended(this.#takeHit(have, next), numTokens);
      const numCachedBlocks = (hit?.numTokens ?? 0) / this.blockSize;
      this.#tables.set(request.requestId, { groups, numCachedBlocks });
    }
    this.peakUsed = Math.max(this.peakUsed, this.numUsable - this.numFree);
    if (!delayCaching) this.cacheBlocks(request, numTokens);
    return true;
  }

  /** Gives hashes to the full blocks among the first numTokens. Their KV must be written before anything can read it. */
  cacheBlocks(request: Request, numTokens: number): void {
    if (!this.#deps.config.enablePrefixCaching) return;
    const table = this.#tables.get(request.requestId);
    invariant(table, () => `${request.requestId} has no blocks to cache`);
    const to = Math.floor(Math.min(numTokens, request.numTokens) / this.blockSize);
    if (to <= table.numCachedBlocks) return;
    const hashes = request.hashesOfFirst(to);
    table.groups.forEach((ids, group) => {
      // Tokens that no window saw when they were loaded have no block. Null blocks come first.
      let from = table.numCachedBlocks;
      while (from < to && ids[from] === NULL_BLOCK) from++;
      if (from === to) return;
      for (let i = from; i < to; i++) this.#pool.cache(ids[i]!, hashes[i]!, group);
      this.#onCacheEvent?.({
        kind: 'stored',
        group,
        blockHashes: hashes.slice(from, to),
        parentBlockHash: hashes[from - 1] ?? null,
        tokenIds: request.tokenIds(from * this.blockSize, (to - from) * this.blockSize),
        blockSize: this.blockSize,
      });
    });
    table.numCachedBlocks = to;
  }

  /** Call when the request has ended: frees blocks of windowed groups that no reader needs. No-op without blocks. */
  keepForReader(request: Request): void {
    if (!this.#tables.has(request.requestId)) return;
    const numBlocks = this.blocksFor(request.numComputedTokens);
    this.#freeLeading(request, (spec) => Math.max(0, numBlocks - handedOverBlocks(spec, this.blockSize)));
  }

  /** Frees all blocks of the request. No-op without blocks. */
  free(request: Request): void {
    const table = this.#tables.get(request.requestId);
    if (!table) return;
    this.onBlocksFreed?.(request, table.groups);
    this.#tables.delete(request.requestId);
    for (const ids of table.groups) this.#pool.free(ids);
  }

  /** Clears the prefix cache. vLLM's rule: returns false, and does nothing, unless only the null block is in use. */
  resetPrefixCache(): boolean {
    if (this.#pool.numFree !== this.#pool.numUsable) return false;
    this.#pool.clearHashes();
    this.#onCacheEvent?.({ kind: 'cleared' });
    return true;
  }

  /** Throws InternalError unless tables, reference counts, free queue and hashes agree. */
  checkIntegrity(): void {
    this.#pool.checkIntegrity(referencesOf(this.tables()));
  }

  /** Request ids with their current tables. */
  *tables(): Iterable<readonly [requestId: string, blockIds: BlockIds]> {
    for (const [requestId, { groups }] of this.#tables) yield [requestId, groups];
  }

  blockState(id: BlockId): ReturnType<BlockPool['state']> {
    return this.#pool.state(id);
  }

  /** Ids of requests that have a table. */
  owners(): Iterable<string> {
    return this.#tables.keys();
  }

  /** Frees the blocks of each group before index first(spec), and puts null blocks in their place. Hashes are kept. */
  #freeLeading(request: Request, first: (spec: KvCacheSpec) => number): void {
    if (!this.#hasWindows) return;
    const table = this.#tables.get(request.requestId)!;
    const leaving = table.groups.map((ids, group) => leavingBlocks(ids, first(this.#groups[group]!)));
    if (leaving.every((ids) => ids.length === 0)) return;
    this.onBlocksFreed?.(request, leaving);
    for (const ids of leaving) this.#pool.free(ids);
    table.groups = table.groups.map((ids, group) => {
      const { length } = leaving[group]!;
      return length === 0 ? ids : [...new Array<BlockId>(length).fill(NULL_BLOCK), ...ids.slice(length)];
    });
  }

  /** The lists, extended with new blocks to hold numTokens tokens. Lists that are long enough are returned unchanged. */
  #extended(groups: BlockIds, numTokens: number): BlockIds {
    const blocks = this.blocksFor(numTokens);
    if (groups.every(({ length }) => length >= blocks)) return groups;
    return byGroup(groups, (ids, group) => {
      if (ids.length >= blocks) return ids;
      const fresh = this.#pool.allocate(blocks - ids.length);
      this.#deps.onNewBlocks?.(group, fresh);
      return ids.length === 0 ? fresh : ids.concat(fresh);
    });
  }

  /** Free blocks needed to grow these lists, including hit blocks that are free now. */
  #needed(have: BlockIds, next: number, numTokens: number, hit: boolean): number {
    return this.#groups.reduce((sum, spec, group) => {
      const ids = have[group]!;
      const length = Math.max(ids.length, skippedBlocks(spec, next, this.blockSize));
      const revived = hit ? this.#numFree(neededBlocks(spec, ids, next, this.blockSize)) : 0;
      return sum + Math.max(0, this.blocksFor(numTokens) - length) + revived;
    }, 0);
  }

  /** References the hit's blocks. Returns a table with them, and null where no window sees a block, also beyond the hit. */
  #takeHit(hit: BlockIds, next: number): BlockIds {
    return byGroup(this.#groups, (spec, group) => {
      const ids = neededBlocks(spec, hit[group]!, next, this.blockSize);
      this.#pool.touch(ids);
      const before = Math.max(hit[group]!.length - ids.length, skippedBlocks(spec, next, this.blockSize));
      return before === 0 ? ids : [...new Array<BlockId>(before).fill(NULL_BLOCK), ...ids];
    });
  }

  #numFree(ids: readonly BlockId[]): number {
    let free = 0;
    for (const id of ids) if (this.#pool.isFree(id)) free++;
    return free;
  }
}
