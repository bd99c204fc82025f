/** Shows an engine as it is, to whoever looks at it. Changes nothing and decides nothing; every answer is valid until the next step. */
import type { TokenIds } from '../../config/token-ids.ts';
import { invariant } from '../../errors.ts';
import type { EngineCounters } from '../counters.ts';
import type { ConnectorOutput, HeldBlocks } from '../kv-connector.ts';
import type { PolicyDeps } from '../scheduler.ts';
import type { BlockIds, RequestStatus } from '../types.ts';
import { type BlockFact, BlockLedger } from './block-facts.ts';
import { type CacheLookup, lookup } from './cache-lookup.ts';
import type { EngineQueues } from './engine-load.ts';
import { checkHolds, checkQueues } from './integrity.ts';
import { type Occupancy, occupancy } from './occupancy.ts';
import { waitingReason } from './waiting-reason.ts';

export interface EngineCoreStats extends EngineCounters {
  running: number;
  waiting: number;
  waitingForRemote: number;
  /** Ended requests whose blocks stay: for a reader, or until a load into them ended. */
  heldRequests: number;
  freeBlocks: number;
  /** The null block does not count. */
  usedBlocks: number;
  /** Used at once at most, since the policy was built. */
  peakUsedBlocks: number;
  /** The null block counts. */
  numBlocks: number;
}

export interface RequestState {
  status: RequestStatus;
  /** Tokens with KV in its blocks; while a load is under way, those that will have it. */
  numComputedTokens: number;
  numPreemptions: number;
  heldFor: 'load' | 'reader' | null;
  blockIds: BlockIds;
}

export interface InspectorDeps extends PolicyDeps {
  /** Reported by the worker side, not yet taken by a step. */
  arrived: () => readonly ConnectorOutput[];
  /** blocks() is never asked. */
  blocksUnseen: boolean;
}

export class Inspector {
  readonly #deps: InspectorDeps;
  readonly #ledger: BlockLedger | null;

  constructor(deps: InspectorDeps) {
    this.#deps = deps;
    this.#ledger = deps.blocksUnseen ? null : new BlockLedger(deps.cache);
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

  /** What is told often: without copies or counts of what is held. */
  load(): EngineQueues {
    const { queues, cache } = this.#deps;
    return {
      running: queues.running.length,
      waiting: queues.waiting.length + queues.loaded.length,
      waitingForRemote: queues.loading.size,
      freeBlocks: cache.numFree,
      numBlocks: cache.numUsable,
    };
  }

  /** null for an unknown (or ended and freed) request. */
  requestState(requestId: string): RequestState | null {
    const { queues, cache } = this.#deps;
    const request = queues.known.get(requestId);
    if (!request) return null;
    const { status, numComputedTokens, numPreemptions, heldFor } = request;
    return { status, numComputedTokens, numPreemptions, heldFor, blockIds: cache.blockIds(request) };
  }

  /** Why a request does not run; null when it does, or is unknown. */
  waitingReason(requestId: string): string | null {
    return waitingReason(requestId, this.#deps, this.#holds());
  }

  /**
   * What this engine has of a sequence: the lookup that admission makes, and the blocks of ended requests that wait for a
   * reader. Takes and schedules nothing, runs nothing.
   */
  lookup(tokenIds: TokenIds, cacheSalt: string | null): CacheLookup {
    return lookup(tokenIds, cacheSalt, this.#deps, this.#holds());
  }

  /** Every block that was ever used, by id. */
  blocks(): BlockFact[] {
    invariant(this.#ledger, () => 'the blocks of an engine that nobody was to look into were asked for');
    return this.#ledger.list(this.#deps.queues.known, this.#holds());
  }

  /** What the pool's blocks are used for, in at most so many equal parts of it. */
  occupancy(mostCells: number): Occupancy {
    return occupancy(this.#deps.cache, this.#holds(), mostCells);
  }

  /** Throws InternalError when queues, tables, reference counts, free list, hashes or holds do not agree. */
  checkIntegrity(): void {
    this.#deps.cache.checkIntegrity();
    checkQueues(this.#deps);
    const reported = new Set(this.#deps.arrived().flatMap((output) => output.finishedSending));
    const holds = this.#holds().filter(({ requestId }) => !reported.has(requestId));
    checkHolds(holds, this.#deps);
  }

  #holds(): readonly HeldBlocks[] {
    return this.#deps.connector?.holds?.list() ?? [];
  }
}
