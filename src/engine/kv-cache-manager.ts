/**
 * Block tables and the prefix cache: which blocks a request has, which it can share, and when a block gets its hash.
 * vLLM's KVCacheManager: one pool for all KV cache groups; a table has a list for each, positional, with the null block where
 * its window has passed. Knows nothing of contents, queues or connectors.
 */

import type { CacheConfig, KvCacheSpec, SchedulerConfig } from '../config/engine.ts';
import type { TokenIds } from '../config/token-ids.ts';
import { invariant } from '../errors.ts';
import type { BlockHasher } from './block-hash.ts';
import { BlockPool } from './block-pool.ts';
import type { BlockResidency } from './block-residency.ts';
import {
  byGroup,
  type CachedPrefix,
  keptBlocks,
  leavingBlocks,
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
  /** Told how long blocks stay; of no effect without prefix caching. */
  residency?: BlockResidency | undefined;
}

interface Table {
  /** Replaced, never changed in place: who has been given it may keep it. */
  groups: BlockIds;
  /** Blocks of each group that were offered to the cache. */
  numCachedBlocks: number;
}

export class KvCacheManager {
  readonly blockSize: number;
  /** Told of blocks just before a request gives them back: positional, the null block where it keeps what it has. */
  onGivenBack: ((request: Request, blockIds: BlockIds) => void) | null = null;
  /** Blocks in use at once, at most, since the beginning. */
  peakUsed = 0;
  #onCacheEvent: ((event: CacheEvent) => void) | null = null;
  readonly #pool: BlockPool;
  readonly #prefixes: CachedPrefixes;
  readonly #deps: KvCacheDeps;
  readonly #groups: CacheConfig['groups'];
  /** Some group gives blocks back while its request goes on. */
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

  /** Told of every change of the prefix cache; null costs nothing. */
  set onCacheEvent(listener: ((event: CacheEvent) => void) | null) {
    this.#onCacheEvent = listener;
    this.#pool.onRemoved =
      listener && ((hash, group) => listener({ kind: 'removed', group, blockHashes: [hash] }));
  }

  /** Blocks that one request can get at best, for all its groups. */
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

  /** The request's table; no blocks when it has none. */
  blockIds(request: Request): BlockIds {
    return this.#tables.get(request.requestId)?.groups ?? byGroup(this.#groups, () => []);
  }

  /** Whether the request's table has every block that its token at `next` sees of the first numTokens. */
  sees(request: Request, next: number, numTokens: number): boolean {
    const ids = this.blockIds(request);
    return this.#groups.every((spec, group) => seesAll(spec, ids[group]!, next, numTokens, this.blockSize));
  }

  /** The longest cached prefix in full blocks, at most one token short of the whole: the last must run to give logits. */
  getComputedBlocks(request: Request): PrefixHit {
    return this.#prefixes.of(request);
  }

  /** What is cached of a sequence, its last block included; changes nothing. */
  lookupPrefix(tokenIds: TokenIds, cacheSalt: string | null): CachedPrefix {
    return this.#prefixes.lookup(tokenIds, cacheSalt);
  }

  /** The full blocks of this sequence beyond keepTokens lose their hashes: no prefix ends there any more. */
  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): void {
    this.#prefixes.forget(tokenIds, cacheSalt, keepTokens);
  }

  /**
   * Free blocks that the request takes at most until all its tokens have KV: `hit` of its first tokens is here, and what
   * comes from elsewhere makes that `computed`; without a hit, beyond its table.
   */
  blocksToCome(request: Request, hit: PrefixHit | null, computed: number): number {
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
      const ids = keptBlocks(spec, have[group]!, next, this.blockSize);
      return sum + Math.max(0, most[group]! - ids.length) + (hit ? this.#numFree(ids) : 0);
    }, 0);
  }

  canAllocate(needed: number): boolean {
    return needed <= this.#pool.numFree;
  }

  /**
   * Grows the request's table to hold numNew tokens after the numComputed ones, which a hit and what comes from elsewhere make
   * at its admission. What has left its window is given back before. False when there are not enough free blocks; nothing
   * else has changed then. `delayCaching`: KV comes from elsewhere, so nothing new gets a hash until cacheBlocks is called.
   */
  allocateSlots(
    request: Request,
    numComputed: number,
    numNew: number,
    hit: PrefixHit | null = null,
    delayCaching = false,
  ): boolean {
    const numTokens = numComputed + numNew;
    // The last token runs whatever was computed, and sees one more than the next would.
    const next = Math.min(numComputed, request.numTokens - 1);
    const table = this.#tables.get(request.requestId);
    invariant(!table || !hit, () => `${request.requestId}: a prefix hit for a request that has blocks`);
    if (table && !this.#hasWindows && table.groups[0]!.length >= this.blocksFor(numTokens)) {
      if (!delayCaching) this.cacheBlocks(request, numTokens);
      return true;
    }
    if (table) this.#giveBack(request, (spec) => skippedBlocks(spec, next, this.blockSize));
    const have = table?.groups ?? hit?.blockIds ?? byGroup(this.#groups, () => []);
    if (!this.canAllocate(this.#needed(have, next, numTokens, hit !== null))) return false;
    if (table) table.groups = this.#grown(table.groups, numTokens);
    else {
      // Only then, when the hits of all groups are taken: nobody's hit is allocated to another group.
      const groups = this.#grown(this.#takeHit(have, next), numTokens);
      const numCachedBlocks = (hit?.numTokens ?? 0) / this.blockSize;
      this.#tables.set(request.requestId, { groups, numCachedBlocks });
    }
    this.peakUsed = Math.max(this.peakUsed, this.numUsable - this.numFree);
    if (!delayCaching) this.cacheBlocks(request, numTokens);
    return true;
  }

  /** Gives hashes to the full blocks among the first numTokens. Their KV must be there before anyone can read it. */
  cacheBlocks(request: Request, numTokens: number): void {
    if (!this.#deps.config.enablePrefixCaching) return;
    const table = this.#tables.get(request.requestId);
    invariant(table, () => `${request.requestId} has no blocks to cache`);
    const to = Math.floor(Math.min(numTokens, request.numTokens) / this.blockSize);
    if (to <= table.numCachedBlocks) return;
    const hashes = request.hashesOfFirst(to);
    table.groups.forEach((ids, group) => {
      // What no window saw when it came has no block; nulls come first.
      let from = table.numCachedBlocks;
      while (from < to && ids[from] === NULL_BLOCK) from++;
      let stored = 0;
      for (let i = from; i < to; i++) stored += Number(this.#pool.cache(ids[i]!, hashes[i]!, group));
      if (stored === 0) return;
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

  /** The request ended: of its windowed groups only what a reader needs stays. No-op without blocks. */
  keepForReader(request: Request): void {
    if (!this.#tables.has(request.requestId)) return;
    const numBlocks = this.blocksFor(request.numComputedTokens);
    this.#giveBack(request, (spec) => Math.max(0, numBlocks - handedOverBlocks(spec, this.blockSize)));
  }

  /** Gives every block of the request back; no-op without blocks. */
  free(request: Request): void {
    const table = this.#tables.get(request.requestId);
    if (!table) return;
    this.onGivenBack?.(request, table.groups);
    this.#tables.delete(request.requestId);
    for (const ids of table.groups) this.#pool.free(ids);
  }

  /** vLLM's rule: false unless only the null block is in use. */
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

  /** Request ids with their tables, as they are now. */
  *tables(): Iterable<readonly [requestId: string, blockIds: BlockIds]> {
    for (const [requestId, { groups }] of this.#tables) yield [requestId, groups];
  }

  blockState(id: BlockId): ReturnType<BlockPool['state']> {
    return this.#pool.state(id);
  }

  /** Request ids that have a table. */
  owners(): Iterable<string> {
    return this.#tables.keys();
  }

  /** The blocks of each group before the one that `first` names become null in place, and free, their hashes kept. */
  #giveBack(request: Request, first: (spec: KvCacheSpec) => number): void {
    if (!this.#hasWindows) return;
    const table = this.#tables.get(request.requestId)!;
    const leaving = table.groups.map((ids, group) => leavingBlocks(ids, first(this.#groups[group]!)));
    if (leaving.every((ids) => ids.length === 0)) return;
    this.onGivenBack?.(request, leaving);
    for (const ids of leaving) this.#pool.free(ids);
    table.groups = table.groups.map((ids, group) => {
      const { length } = leaving[group]!;
      return length === 0 ? ids : [...new Array<BlockId>(length).fill(NULL_BLOCK), ...ids.slice(length)];
    });
  }

  /** Lists that hold so many tokens, with what the pool gives; those that do already are themselves. */
  #grown(groups: BlockIds, numTokens: number): BlockIds {
    const wanted = this.blocksFor(numTokens);
    if (groups.every(({ length }) => length >= wanted)) return groups;
    return byGroup(groups, (ids, group) => {
      if (ids.length >= wanted) return ids;
      const fresh = this.#pool.allocate(wanted - ids.length);
      this.#deps.onNewBlocks?.(group, fresh);
      return ids.length === 0 ? fresh : ids.concat(fresh);
    });
  }

  /** Free blocks that growing these lists takes, those of a hit that nobody uses included. */
  #needed(have: BlockIds, next: number, numTokens: number, hit: boolean): number {
    return this.#groups.reduce((sum, spec, group) => {
      const ids = have[group]!;
      const length = Math.max(ids.length, skippedBlocks(spec, next, this.blockSize));
      const revived = hit ? this.#numFree(keptBlocks(spec, ids, next, this.blockSize)) : 0;
      return sum + Math.max(0, this.blocksFor(numTokens) - length) + revived;
    }, 0);
  }

  /** A table that begins with this hit, referenced; what no window sees is null, beyond the hit too. */
  #takeHit(hit: BlockIds, next: number): BlockIds {
    return byGroup(this.#groups, (spec, group) => {
      const ids = keptBlocks(spec, hit[group]!, next, this.blockSize);
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
