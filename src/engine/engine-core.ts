/**
 * One engine: a step is collect, schedule, run, postprocess. Joins the scheduler with the executor and the connector's
 * worker side. Owns no loop: its thread calls step() while poll() says so, and waitForChange() otherwise.
 */

import type { EngineCoreConfig } from '../config/engine.ts';
import type { TokenIds } from '../config/token-ids.ts';
import { invariant, RequestError } from '../errors.ts';
import { type BlockHasher, type BlockHashing, createBlockHasher } from './block-hash.ts';
import type { BlockResidency, BlockStay } from './block-residency.ts';
import type { CacheEvent } from './cache-event.ts';
import { startCounting } from './counters.ts';
import { DecodeRun } from './decode-run.ts';
import { Activities, type ActivitySink } from './inspect/activities.ts';
import { Inspector } from './inspect/inspector.ts';
import { KvCacheManager } from './kv-cache-manager.ts';
import type { ConnectorOutput, KvConnector, Pressure, RefusedRequest } from './kv-connector.ts';
import { Postprocessor } from './postprocess.ts';
import { checkRequest, Request } from './request.ts';
import { RequestQueues, Scheduler, type SchedulerDeps } from './scheduler.ts';
import type {
  BlockId,
  Clock,
  EngineRequest,
  ModelExecutor,
  RequestOutput,
  SampledRow,
  ScheduledBatch,
} from './types.ts';

export interface EngineCoreDeps {
  config: EngineCoreConfig;
  executor: ModelExecutor;
  /** null: an engine that neither sends nor pulls. */
  connector: KvConnector | null;
  clock: Clock;
  /** Ids of newly allocated blocks (no prefix hits), before anything is written to them: tests fill them with NaN. */
  onNewBlocks?: (group: number, ids: readonly BlockId[]) => void;
  /** Follows how long blocks stay: takeStays() tells it. */
  residency?: BlockResidency;
  /** A batch ran in so many milliseconds. */
  onBatch?: (batch: ScheduledBatch, ms: number) => void;
  /** Nobody will look into its blocks (inspect.blocks()): what was in those that were given back is not kept. */
  blocksUnseen?: boolean;
  /** Told what steps spend time on, and how long requests wait. */
  onActivity?: ActivitySink;
  /** For tests: another digest in the block hash chain. */
  hasher?: BlockHasher;
}

export class EngineCore {
  /** Shows the engine as it is. */
  readonly inspect: Inspector;
  readonly #deps: EngineCoreDeps;
  readonly #hashing: BlockHashing;
  readonly #cache: KvCacheManager;
  readonly #queues = new RequestQueues();
  readonly #scheduler: Scheduler;
  readonly #postprocessor: Postprocessor;
  readonly #decodeRun: DecodeRun;
  readonly #activities: Activities | null;
  /** Reported by the worker side, not yet taken by a step. */
  #arrived: ConnectorOutput[] = [];
  #stepping = false;
  /** Since when the batch under way runs. */
  #runsFromMs = 0;

  constructor(deps: EngineCoreDeps) {
    this.#deps = deps;
    const { config, connector, clock, onNewBlocks, onActivity, residency } = deps;
    const hasher = deps.hasher ?? createBlockHasher(config.cache.hashSeed);
    this.#hashing = { hasher, blockSize: config.cache.blockSize };
    this.#cache = new KvCacheManager({
      config: config.cache,
      scheduler: config.scheduler,
      hasher,
      onNewBlocks,
      residency,
    });
    const counters = startCounting();
    const shared = { config, queues: this.#queues, cache: this.#cache, connector, counters };
    const activities = onActivity && new Activities(Object.assign({ clock, tell: onActivity }, shared));
    this.#activities = activities ?? null;
    const dropOldestHold = (pressure: Pressure): boolean => this.#dropOldestHold(pressure);
    const scheduling: SchedulerDeps = Object.assign({ dropOldestHold }, shared);
    if (activities) scheduling.onLookup = { now: activities.now, tell: activities.lookup };
    this.#scheduler = new Scheduler(scheduling);
    this.#postprocessor = new Postprocessor(shared);
    this.#decodeRun = new DecodeRun(shared);
    const { blocksUnseen = false } = deps;
    this.inspect = new Inspector(Object.assign({ blocksUnseen, arrived: () => this.#arrived }, shared));
  }

  /** Throws RequestError when the request cannot be served; a holder that it names is then told to free. */
  addRequest(engineRequest: EngineRequest): void {
    const { config, clock, connector } = this.#deps;
    const { requestId } = engineRequest;
    const earlier = this.#queues.known.get(requestId);
    if (earlier) {
      // The same once more: what it names is the earlier one's to load.
      const { remote_request_id: remote } = earlier.kvTransferParams ?? {};
      if (engineRequest.kvTransferParams?.remote_request_id !== remote) this.refuseRequest(engineRequest);
      throw new RequestError(
        `request ${requestId}: an earlier one with this id has not ended: choose another id`,
      );
    }
    const request = new Request(engineRequest, clock.now(), this.#hashing);
    try {
      checkRequest(engineRequest, config, this.#cache.numUsable);
    } catch (error) {
      request.status = 'finished_error';
      connector?.scheduler.requestFinished(request, this.#cache.blockIds(request));
      throw error;
    }
    this.#queues.add(request);
    connector?.scheduler.onNewRequest(request);
    this.#activities?.waits(request);
  }

  /** For a request that was refused before it came here: a holder that it names is told to free. */
  refuseRequest(request: RefusedRequest): void {
    this.#deps.connector?.scheduler.requestRefused?.(request);
  }

  /** No-op for an unknown or finished request. Its end comes out of the next step. */
  abortRequest(requestId: string): void {
    this.#postprocessor.finishRequest(requestId, 'finished_aborted');
  }

  /**
   * Ends a request as a stop token would, with what has KV so far, which is held for a reader: for stops that only its text
   * shows. No-op for an unknown or finished request.
   */
  stopRequest(requestId: string): void {
    this.#postprocessor.finishRequest(requestId, 'finished_stopped');
  }

  /** Something is left to do or to wait for, holds included. */
  hasWork(): boolean {
    return this.#queues.known.size > 0 || this.#hasNews();
  }

  /**
   * Takes what the worker side reports. True when a step now would do something; otherwise only waitForChange, addRequest,
   * abortRequest or stopRequest changes that.
   */
  poll(): boolean {
    this.#takeReports();
    return this.#hasNews() || this.#scheduler.canSchedule;
  }

  /**
   * One round. Rejects only when the executor does, after which the engine is not to be used. A hold is known to the
   * worker side before the output that names it is returned, since the reader may come at once.
   */
  async step(): Promise<RequestOutput[]> {
    const batch = this.beginStep();
    const sampled = batch.requests.length > 0 ? await this.#deps.executor.execute(batch) : [];
    return this.endStep(batch, sampled);
  }

  /** A round's first half: takes what was reported and plans a batch, which may be empty. endStep() must follow. */
  beginStep(): ScheduledBatch {
    invariant(!this.#stepping, () => 'a step was begun before the last one ended');
    this.#stepping = true;
    this.#activities?.stepBegins();
    this.#collect();
    const batch = this.#scheduler.schedule();
    this.#tellWorkerSide();
    this.#activities?.planned(batch);
    this.#runsFromMs = this.#deps.clock.now();
    for (const { requestId } of batch.requests)
      this.#queues.known.get(requestId)!.times.scheduledMs ??= this.#runsFromMs;
    return batch;
  }

  /** Its second half, with what the batch's run gave. */
  endStep(batch: ScheduledBatch, sampled: readonly SampledRow[]): RequestOutput[] {
    try {
      const { onBatch, clock } = this.#deps;
      if (batch.requests.length > 0) onBatch?.(batch, clock.now() - this.#runsFromMs);
      this.#activities?.ran();
      const outputs = this.#postprocessor.updateFromOutput(batch, sampled);
      this.#tellWorkerSide();
      this.#activities?.stepEnds(batch);
      return outputs;
    } finally {
      this.#stepping = false;
    }
  }

  /**
   * Steps of nothing but decoding that decode() may take in place of begin- and endStep(); 0 while one is under way, where
   * anything else is to be done, and where somebody is told of each.
   */
  get decodeSteps(): number {
    if (this.#stepping || this.#activities || this.#deps.onBatch || this.#hasNews()) return 0;
    return this.#decodeRun.steps;
  }

  /** Of the next of them: requests, and the tokens before theirs. */
  decodeShape(): ReturnType<DecodeRun['shape']> {
    return this.#decodeRun.shape();
  }

  /**
   * `count`: at most decodeSteps, none of which begins when something is due (dueMs). `onSteps`: told after so many, of which
   * only the first may have changed blocks.
   */
  decode(count: number, onSteps: ((steps: number) => void) | null): void {
    this.#decodeRun.take(count, onSteps);
  }

  #collect(): void {
    this.#takeReports();
    const arrived = this.#arrived;
    this.#arrived = [];
    for (const output of arrived) this.#postprocessor.updateFromConnector(output);
  }

  #tellWorkerSide(): void {
    const { connector } = this.#deps;
    if (connector && this.#metaIsDue())
      connector.worker.startLoadKv(connector.scheduler.buildConnectorMeta());
  }

  /** When poll() may become true by itself, on the engine's clock: a heartbeat or a hold's end is due; null: it will not. */
  dueMs(): number | null {
    const { connector } = this.#deps;
    const scheduler = connector?.scheduler.metaDueMs() ?? null;
    const worker = connector?.worker.dueMs?.() ?? null;
    return scheduler === null || worker === null ? (scheduler ?? worker) : Math.min(scheduler, worker);
  }

  /**
   * Resolves when poll() may have become true by itself: the worker side has something to report, or the scheduler side
   * something to tell it (a heartbeat). Without a connector only the signal ends it.
   */
  async waitForChange(signal: AbortSignal): Promise<void> {
    const { connector, clock } = this.#deps;
    // Not AbortSignal.any: Node keeps such a signal for good once a listener outlived its abort.
    const over = new AbortController();
    const stop = over.signal;
    const stopped = new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve()));
    const end = () => over.abort();
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    const due = connector?.scheduler.metaDueMs() ?? null;
    await Promise.race([
      stopped,
      connector?.worker.waitForChange(stop) ?? stopped,
      due === null ? stopped : clock.sleep(Math.max(0, due - clock.now()), stop),
    ]);
    signal.removeEventListener('abort', end);
    over.abort();
  }

  /** Forgets all cached prefixes. vLLM's rule: false, and nothing done, unless only the null block is in use. */
  resetPrefixCache(): boolean {
    return this.#cache.resetPrefixCache();
  }

  /** How long blocks stayed that were evicted since the last call; of those that are followed. */
  takeStays(): readonly BlockStay[] {
    return this.#deps.residency?.take() ?? [];
  }

  /** For measuring a turn again: what is cached of the sequence beyond its first keepTokens is found no more. */
  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): void {
    this.#cache.forgetPrefix(tokenIds, cacheSalt, keepTokens);
  }

  /** Whom to tell of changes of the prefix cache; null costs nothing. */
  set onCacheEvent(listener: ((event: CacheEvent) => void) | null) {
    this.#cache.onCacheEvent = listener;
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

  /** The next step has something to take or to tell, whoever runs. */
  #hasNews(): boolean {
    return this.#arrived.length > 0 || this.#postprocessor.hasEndings || this.#metaIsDue();
  }

  #metaIsDue(): boolean {
    const due = this.#deps.connector?.scheduler.metaDueMs() ?? null;
    return due !== null && due <= this.#deps.clock.now();
  }

  #dropOldestHold(pressure: Pressure): boolean {
    const dropped = this.#deps.connector?.holds?.dropOldest(pressure) ?? null;
    if (dropped !== null) this.#collect();
    return dropped !== null;
  }
}
