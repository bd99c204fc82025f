/** A read-only view of an engine's state. Changes nothing. Every answer is valid until the next step. */
import type { TokenIds } from '../../config/token-ids.ts';
import { invariant } from '../../errors.ts';
import type { CacheEvent } from '../cache-event.ts';
import type { EngineCounters } from '../counters.ts';
import type { ConnectorOutput, HeldBlocks } from '../kv-connector.ts';
import type { PolicyDeps } from '../scheduler.ts';
import type { BlockIds, RequestStatus } from '../types.ts';
import { type BlockFact, BlockLedger } from './block-facts.ts';
import { type CacheLookup, lookup } from './cache-lookup.ts';
import { type EngineQueues, noQueues } from './engine-load.ts';
import { checkHolds, checkQueues } from './integrity.ts';
import { type Occupancy, occupancy } from './occupancy.ts';
import { waitingReason } from './waiting-reason.ts';

export interface EngineCoreStats extends EngineCounters {
  running: number;
  waiting: number;
  waitingForRemote: number;
  /** Ended requests that keep blocks: for a reader, or until a load into them ends. */
  heldRequests: number;
  freeBlocks: number;
  /** Without the null block. */
  usedBlocks: number;
  /** Most blocks in use at the same time since the engine was created. */
  peakUsedBlocks: number;
  /** Including the null block. */
  numBlocks: number;
}

export interface RequestState {
  status: RequestStatus;
  /** Tokens with KV in the request's blocks; during a load, including those being loaded. */
  numComputedTokens: number;
  numPreemptions: number;
  heldFor: 'load' | 'reader' | null;
  blockIds: BlockIds;
}

export interface InspectorDeps extends PolicyDeps {
  /** Worker side reports that no step has processed yet. */
  reports: () => readonly ConnectorOutput[];
  /** blocks() will not be called. */
  withoutBlockFacts: boolean;
}

export class Inspector {
  readonly #deps: InspectorDeps;
  readonly #ledger: BlockLedger | null;

  constructor(deps: InspectorDeps) {
    this.#deps = deps;
    this.#ledger = deps.withoutBlockFacts ? null : new BlockLedger(deps.cache);
  }

  stats(): EngineCoreStats {
    const { queues, cache, config, counters } = this.#deps;
    const freeBlocks = cache.numFree;
    return {
      ...structuredClone(counters),
      running: queues.running.length,
      waiting: queues.waiting.length + queues.loaded.length,
      waitingForRemote: queues.loading.size,
      heldRequests: queues.numHeld,
      freeBlocks,
      usedBlocks: cache.numUsable - freeBlocks,
      peakUsedBlocks: cache.peakUsed,
      numBlocks: config.cache.numBlocks,
    };
  }

  /** A cheap subset of stats(), for frequent calls: written into `into`, and returned. */
  load(into: EngineQueues = noQueues()): EngineQueues {
    const { queues, cache } = this.#deps;
    into.running = queues.running.length;
    into.waiting = queues.waiting.length + queues.loaded.length;
    into.waitingForRemote = queues.loading.size;
    into.freeBlocks = cache.numFree;
    into.numBlocks = cache.numUsable;
    return into;
  }

  /** null if the request is unknown, or has ended and been freed. */
  requestState(requestId: string): RequestState | null {
    const { queues, cache } = this.#deps;
    const request = queues.known.get(requestId);
    if (!request) return null;
    const { status, numComputedTokens, numPreemptions, heldFor } = request;
    return { status, numComputedTokens, numPreemptions, heldFor, blockIds: cache.blockIds(request) };
  }

  /** Why a request is not running; null if it is running, finished or unknown. */
  waitingReason(requestId: string): string | null {
    return waitingReason(requestId, this.#deps, this.#holds());
  }

  /**
   * What this engine has of a sequence: the prefix cache lookup that admission makes, and matching holds. Allocates and
   * schedules nothing.
   */
  lookup(tokenIds: TokenIds, cacheSalt: string | null): CacheLookup {
    return lookup(tokenIds, cacheSalt, this.#deps, this.#holds());
  }

  /** Every block ever used, sorted by id. Throws InternalError if the engine was created withoutBlockFacts. */
  blocks(): BlockFact[] {
    invariant(
      this.#ledger,
      () => 'blocks() was called on an engine created withoutBlockFacts: create it without that option',
    );
    return this.#ledger.list(this.#deps.queues.known, this.#holds());
  }

  /** What the prefix cache contains, as events, in no particular order. */
  cacheContents(): CacheEvent[] {
    const { cache } = this.#deps;
    const rest = { parentBlockHash: null, tokenIds: [], blockSize: cache.blockSize };
    return cache.cachedHashes().flatMap((blockHashes, group) => {
      return blockHashes.length > 0 ? [{ kind: 'stored' as const, group, blockHashes, ...rest }] : [];
    });
  }

  /** What the pool's blocks are used for, aggregated into at most `mostCells` equal parts. */
  occupancy(mostCells: number): Occupancy {
    return occupancy(this.#deps.cache, this.#holds(), mostCells);
  }

  /** Throws InternalError unless queues, tables, reference counts, free queue, hashes and holds agree. */
  checkIntegrity(): void {
    this.#deps.cache.checkIntegrity();
    checkQueues(this.#deps);
    const reported = new Set(this.#deps.reports().flatMap((output) => output.finishedSending));
    const holds = this.#holds().filter(({ requestId }) => !reported.has(requestId));
    checkHolds(holds, this.#deps);
  }

  #holds(): readonly HeldBlocks[] {
    return this.#deps.connector?.holds?.list() ?? [];
  }
}
