/**
 * One engine: a step is collect, schedule, run, postprocess. Joins the scheduler with the executor and the connector's
 * worker side. Owns no loop: its thread calls step() while poll() says so, and waitForChange() otherwise.
 */
import type { EngineCoreConfig } from '../config/engine.ts';
import { invariant, RequestError } from '../errors.ts';
import { Activities, type ActivitySink } from './activities.ts';
import { checkRequest } from './admission.ts';
import { type BlockFact, BlockLedger } from './block-facts.ts';
import { type BlockHasher, type BlockHashing, createBlockHasher } from './block-hash.ts';
import { type CacheLookup, heldPrefixes } from './cache-lookup.ts';
import type { EngineCoreStats, RequestState } from './engine-state.ts';
import { checkHolds, checkQueues } from './integrity.ts';
import { type CacheEvent, KvCacheManager } from './kv-cache-manager.ts';
import type { ConnectorOutput, KvConnector } from './kv-connector.ts';
import { Outcomes } from './outcomes.ts';
import { Request } from './request.ts';
import { RequestQueues } from './request-queues.ts';
import { Scheduler } from './scheduler.ts';
import type {
  BlockId,
  Clock,
  EngineRequest,
  ModelExecutor,
  RequestOutput,
  SampledToken,
  ScheduledBatch,
} from './types.ts';
import { waitingReason } from './waiting-reason.ts';

export interface EngineCoreDeps {
  config: EngineCoreConfig;
  executor: ModelExecutor;
  /** null: an engine that neither sends nor pulls. */
  connector: KvConnector | null;
  clock: Clock;
  /** Ids of newly allocated blocks (no prefix hits), before anything is written to them: tests fill them with NaN. */
  onNewBlocks?: (group: number, ids: readonly BlockId[]) => void;
  onCacheEvent?: (event: CacheEvent) => void;
  /** A batch ran in so many milliseconds. */
  onBatch?: (batch: ScheduledBatch, ms: number) => void;
  /** Told what steps spend time on, and how long requests wait. */
  onActivity?: ActivitySink;
  /** For tests: another digest in the block hash chain. */
  hasher?: BlockHasher;
}

export class EngineCore {
  readonly #deps: EngineCoreDeps;
  readonly #hashing: BlockHashing;
  readonly #cache: KvCacheManager;
  readonly #queues = new RequestQueues();
  readonly #scheduler: Scheduler;
  readonly #outcomes: Outcomes;
  readonly #ledger: BlockLedger;
  readonly #activities: Activities | null;
  /** Reported by the worker side, not yet taken by a step. */
  #arrived: ConnectorOutput[] = [];
  #steps = 0;
  #forwardPasses = 0;
  #stepping = false;

  constructor(deps: EngineCoreDeps) {
    this.#deps = deps;
    const { config, onNewBlocks, onCacheEvent } = deps;
    const hasher = deps.hasher ?? createBlockHasher(config.cache.hashSeed);
    this.#hashing = { hasher, blockSize: config.cache.blockSize };
    this.#cache = new KvCacheManager({ config: config.cache, hasher, onNewBlocks, onCacheEvent });
    const shared = { config, queues: this.#queues, cache: this.#cache, connector: deps.connector };
    const { clock, onActivity } = deps;
    const activities = onActivity && new Activities({ ...shared, clock, tell: onActivity });
    this.#activities = activities ?? null;
    this.#scheduler = new Scheduler({
      ...shared,
      dropOldestHold: () => this.#dropOldestHold(),
      ...(activities ? { onLookup: { now: activities.now, tell: activities.lookup } } : {}),
    });
    this.#outcomes = new Outcomes(shared);
    this.#ledger = new BlockLedger(config.cache.blockSize);
    this.#cache.onGivenBack = (request, blockIds) =>
      this.#ledger.givenBack(request, blockIds, (id) => this.#cache.blockState(0, id).hash);
  }

  /** Throws RequestError when the request cannot be served; a holder that it names is then told to free. */
  addRequest(request: EngineRequest): void {
    if (this.#queues.known.has(request.requestId)) {
      throw new RequestError(
        `request ${request.requestId}: an earlier one with this id has not ended: choose another id`,
      );
    }
    const entry = new Request(request, this.#deps.clock.now(), this.#hashing);
    try {
      checkRequest(request, this.#deps.config, this.#cache.numUsable);
    } catch (error) {
      entry.status = 'finished_error';
      this.#deps.connector?.scheduler.requestFinished(entry, this.#cache.blockIds(entry));
      throw error;
    }
    this.#outcomes.added(entry);
    this.#activities?.waits(entry);
  }

  /** No-op for an unknown or finished request. Its end comes out of the next step. */
  abortRequest(requestId: string): void {
    this.#outcomes.aborted(requestId);
  }

  /** As if it had sampled a stop token: what it computed is held for a reader. No-op for an unknown or finished request. */
  stopRequest(requestId: string): void {
    this.#outcomes.stopped(requestId);
  }

  /** Something is left to do or to wait for, holds included. */
  hasWork(): boolean {
    const { known } = this.#queues;
    return known.size > 0 || this.#outcomes.hasEndings || this.#metaIsDue() || this.#arrived.length > 0;
  }

  /**
   * Takes what the worker side reports. True when a step now would do something; otherwise only waitForChange, addRequest,
   * abortRequest or stopRequest changes that.
   */
  poll(): boolean {
    this.#takeReports();
    const endings = this.#arrived.length > 0 || this.#outcomes.hasEndings;
    return endings || this.#scheduler.mayGetOn || this.#metaIsDue();
  }

  /**
   * One round. Rejects only when the executor does, after which the engine is not to be used. A hold is known to the
   * worker side before the output that names it is returned, since the reader may come at once.
   */
  async step(): Promise<RequestOutput[]> {
    invariant(!this.#stepping, () => 'a step was begun before the last one ended');
    this.#stepping = true;
    try {
      this.#takeReports();
      this.#activities?.stepBegins(this.#steps);
      this.#takeArrived();
      const batch = this.#scheduler.schedule(this.#steps++);
      this.#flushMeta();
      this.#activities?.planned(batch);
      const sampled = batch.requests.length > 0 ? await this.#execute(batch) : [];
      const ranMs = this.#activities?.now() ?? 0;
      const outputs = this.#outcomes.ran(batch, sampled);
      this.#flushMeta();
      this.#activities?.stepEnds(batch, ranMs);
      return [...outputs, ...this.#outcomes.takeEndings()];
    } finally {
      this.#stepping = false;
    }
  }

  /**
   * Resolves when poll() may have become true by itself: the worker side has something to report, or the scheduler side
   * something to tell it (a heartbeat). Without a connector only the signal ends it.
   */
  async waitForChange(signal: AbortSignal): Promise<void> {
    const { connector, clock } = this.#deps;
    const over = new AbortController();
    const stop = AbortSignal.any([signal, over.signal]);
    const waits: Promise<void>[] = [
      new Promise((resolve) => {
        if (stop.aborted) resolve();
        stop.addEventListener('abort', () => resolve());
      }),
    ];
    if (connector) {
      waits.push(connector.worker.waitForChange(stop));
      const due = connector.scheduler.metaDueMs();
      if (due !== null) waits.push(clock.sleep(Math.max(0, due - clock.now()), stop));
    }
    await Promise.race(waits);
    over.abort();
  }

  /** Forgets all cached prefixes. vLLM's rule: false, and nothing done, unless only the null block is in use. */
  resetPrefixCache(): boolean {
    return this.#cache.resetPrefixCache();
  }

  /** Whom to tell of changes of the prefix cache; null costs nothing. */
  set onCacheEvent(listener: ((event: CacheEvent) => void) | null) {
    this.#cache.onCacheEvent = listener;
  }

  /**
   * What this engine has of a sequence: the lookup that admission makes, and the blocks of ended requests that wait for a
   * reader. Takes and schedules nothing, runs nothing; valid until the next step.
   */
  lookup(tokenIds: readonly number[], cacheSalt: string | null): CacheLookup {
    const { numTokens, blockIds, blockHashes } = this.#cache.lookupPrefix(tokenIds, cacheSalt);
    const { blockSize } = this.#cache;
    const mostHit = Math.floor(Math.max(0, tokenIds.length - 1) / blockSize) * blockSize;
    const holds = this.#deps.connector?.holds?.list() ?? [];
    const held = heldPrefixes(holds, this.#queues.known, { tokenIds, cacheSalt, blockSize });
    const hitTokens = Math.min(numTokens, mostHit);
    return { blockSize, cachedTokens: numTokens, hitTokens, blockIds, blockHashes, held };
  }

  /** Every block of group 0 that was ever used, by id. */
  blocks(): BlockFact[] {
    return this.#ledger.list(this.#cache, this.#queues.known, this.#deps.connector?.holds?.list() ?? []);
  }

  /** For measuring a turn again: what is cached of the sequence beyond its first keepTokens is found no more. */
  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keepTokens: number): void {
    this.#cache.forgetPrefix(tokenIds, cacheSalt, keepTokens);
  }

  /** null for an unknown (or ended and freed) request. */
  requestState(requestId: string): RequestState | null {
    const request = this.#queues.known.get(requestId);
    if (!request) return null;
    const { status, numComputedTokens, numPreemptions, heldFor } = request;
    return { status, numComputedTokens, numPreemptions, heldFor, blockIds: this.#cache.blockIds(request) };
  }

  /** Why a request does not run; null when it does, or is unknown. */
  waitingReason(requestId: string): string | null {
    const holds = this.#deps.connector?.holds?.list() ?? [];
    return waitingReason(requestId, this.#queues, this.#cache, this.#deps.config, holds);
  }

  /** Throws InternalError when queues, tables, reference counts, free list, hashes or holds do not agree. */
  checkIntegrity(): void {
    this.#cache.checkIntegrity();
    checkQueues(this.#queues, this.#cache);
    const reported = new Set(this.#arrived.flatMap((output) => output.finishedSending));
    const holds = this.#deps.connector?.holds?.list() ?? [];
    checkHolds(
      holds.filter(({ requestId }) => !reported.has(requestId)),
      this.#queues,
      this.#cache,
    );
  }

  stats(): EngineCoreStats {
    const { waiting, loading, loaded, running, held } = this.#queues.byName();
    const { preemptions, prefixCache, externalPrefixCache } = this.#scheduler.counters;
    const freeBlocks = this.#cache.numFree;
    return {
      running: running.length,
      waiting: waiting.length + loaded.length,
      waitingForRemote: loading.length,
      heldRequests: held.length,
      freeBlocks,
      usedBlocks: this.#cache.numUsable - freeBlocks,
      numBlocks: this.#deps.config.cache.numBlocks,
      preemptions,
      steps: this.#steps,
      forwardPasses: this.#forwardPasses,
      prefixCache: { ...prefixCache },
      externalPrefixCache: { ...externalPrefixCache },
    };
  }

  async #execute(batch: ScheduledBatch): Promise<SampledToken[]> {
    const { executor, clock, onBatch } = this.#deps;
    const begun = clock.now();
    this.#outcomes.scheduled(batch, begun);
    this.#forwardPasses++;
    const sampled = await executor.execute(batch);
    onBatch?.(batch, clock.now() - begun);
    return sampled;
  }

  #takeReports(): void {
    const output = this.#deps.connector?.worker.getFinished();
    if (!output) return;
    const { finishedSending, finishedRecving, failedRecving, changed } = output;
    if (changed) this.#queues.changes++;
    for (const id of finishedRecving) {
      const request = this.#queues.known.get(id);
      if (request) this.#activities?.waits(request);
    }
    if (finishedSending.length + finishedRecving.length + failedRecving.length > 0)
      this.#arrived.push(output);
  }

  #takeArrived(): void {
    const arrived = this.#arrived;
    this.#arrived = [];
    for (const output of arrived) this.#outcomes.transferred(output);
  }

  #dropOldestHold(): boolean {
    const dropped = this.#deps.connector?.holds?.dropOldest() ?? null;
    if (dropped === null) return false;
    this.#takeReports();
    this.#takeArrived();
    return true;
  }

  #flushMeta(): void {
    const { connector } = this.#deps;
    if (connector && this.#metaIsDue())
      connector.worker.startLoadKv(connector.scheduler.buildConnectorMeta());
  }

  #metaIsDue(): boolean {
    const due = this.#deps.connector?.scheduler.metaDueMs() ?? null;
    return due !== null && due <= this.#deps.clock.now();
  }
}
