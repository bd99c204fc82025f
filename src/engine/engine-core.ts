/**
 * One engine. Connects the scheduler with the executor and the connector's worker side; a step is collect, schedule, run,
 * postprocess. Has no loop of its own: its thread calls step() while poll() returns true, and waitForChange() otherwise.
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
  /** null for an engine that neither sends nor pulls. */
  connector: KvConnector | null;
  clock: Clock;
  /** Called with newly allocated blocks (not prefix hits) before anything is written to them. Tests fill them with NaN. */
  onNewBlocks?: (group: number, ids: readonly BlockId[]) => void;
  /** Measures how long blocks stay; read with takeStays(). */
  residency?: BlockResidency;
  /** Called after each batch with its run time in ms. */
  onBatch?: (batch: ScheduledBatch, ms: number) => void;
  /** inspect.blocks() will not be called, so facts about freed blocks need not be kept. */
  withoutBlockFacts?: boolean;
  /** Called with the intervals of steps and of requests' waits. */
  onActivity?: ActivitySink;
  /** Replaces the hasher of the block hash chain: for tests and simulations. */
  hasher?: BlockHasher;
}

export class EngineCore {
  /** Read-only view of the engine's state. */
  readonly inspect: Inspector;
  readonly #deps: EngineCoreDeps;
  readonly #hashing: BlockHashing;
  readonly #cache: KvCacheManager;
  readonly #queues = new RequestQueues();
  readonly #scheduler: Scheduler;
  readonly #postprocessor: Postprocessor;
  readonly #decodeRun: DecodeRun;
  readonly #activities: Activities | null;
  /** Worker side reports that no step has processed yet. */
  #reports: ConnectorOutput[] = [];
  #stepping = false;
  /** When the current batch began to run. */
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
    const activities = onActivity && new Activities(Object.assign({ clock, report: onActivity }, shared));
    this.#activities = activities ?? null;
    const dropOldestHold = (pressure: Pressure): boolean => this.#dropOldestHold(pressure);
    const scheduling: SchedulerDeps = Object.assign({ dropOldestHold }, shared);
    if (activities) scheduling.onLookup = { now: activities.now, report: activities.lookup };
    this.#scheduler = new Scheduler(scheduling);
    this.#postprocessor = new Postprocessor(shared);
    this.#decodeRun = new DecodeRun(shared);
    const { withoutBlockFacts = false } = deps;
    this.inspect = new Inspector(Object.assign({ withoutBlockFacts, reports: () => this.#reports }, shared));
  }

  /** Throws RequestError if the request cannot be served. The holder that it names is then told to free its blocks. */
  addRequest(engineRequest: EngineRequest): void {
    const { config, clock, connector } = this.#deps;
    const { requestId } = engineRequest;
    const earlier = this.#queues.known.get(requestId);
    if (earlier) {
      // A duplicate that names the same hold: the earlier request loads it, so it must not be freed.
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

  /** For a request refused before it reached the engine: tells the holder that it names to free its blocks. */
  refuseRequest(request: RefusedRequest): void {
    this.#deps.connector?.scheduler.requestRefused?.(request);
  }

  /** The next step returns the request's end. No-op for an unknown or finished request. */
  abortRequest(requestId: string): void {
    this.#postprocessor.finishRequest(requestId, 'finished_aborted');
  }

  /**
   * Ends a request as a stop token would; KV computed so far is held for a reader. For stop strings, which only the text
   * shows. No-op for an unknown or finished request.
   */
  stopRequest(requestId: string): void {
    this.#postprocessor.finishRequest(requestId, 'finished_stopped');
  }

  /** Whether anything is left to do or to wait for, including holds. */
  hasWork(): boolean {
    return this.#queues.known.size > 0 || this.#hasNews();
  }

  /**
   * Takes reports from the worker side. Returns whether a step now would do something. If not, that changes only after
   * waitForChange resolves or after addRequest, abortRequest or stopRequest.
   */
  poll(): boolean {
    this.#takeReports();
    return this.#hasNews() || this.#scheduler.canSchedule;
  }

  /**
   * Runs one step. Rejects only if the executor does; the engine must not be used afterwards. The worker side knows a hold
   * before the output that names it is returned, since the reader may ask immediately.
   */
  async step(): Promise<RequestOutput[]> {
    const batch = this.beginStep();
    const sampled = batch.requests.length > 0 ? await this.#deps.executor.execute(batch) : [];
    return this.endStep(batch, sampled);
  }

  /** First half of a step: processes reports and plans a batch, which may be empty. endStep() must follow. */
  beginStep(): ScheduledBatch {
    invariant(!this.#stepping, () => 'a step was begun before the last one ended');
    this.#stepping = true;
    this.#activities?.stepBegins();
    this.#collect();
    const batch = this.#scheduler.schedule();
    this.#notifyWorkerSide();
    this.#activities?.planned(batch);
    this.#runsFromMs = this.#deps.clock.now();
    for (const { requestId } of batch.requests)
      this.#queues.known.get(requestId)!.times.scheduledMs ??= this.#runsFromMs;
    return batch;
  }

  /** Second half of a step: applies the results of the batch. */
  endStep(batch: ScheduledBatch, sampled: readonly SampledRow[]): RequestOutput[] {
    try {
      const { onBatch, clock } = this.#deps;
      if (batch.requests.length > 0) onBatch?.(batch, clock.now() - this.#runsFromMs);
      this.#activities?.ran();
      const outputs = this.#postprocessor.updateFromOutput(batch, sampled);
      this.#notifyWorkerSide();
      this.#activities?.stepEnds(batch);
      return outputs;
    } finally {
      this.#stepping = false;
    }
  }

  /**
   * Number of pure decode steps that decode() may take in place of beginStep() and endStep(). 0 during a step, if there is
   * other work, or if a listener must be called for each step.
   */
  get decodeSteps(): number {
    if (this.#stepping || this.#activities || this.#deps.onBatch || this.#hasNews()) return 0;
    return this.#decodeRun.steps;
  }

  /** Shape of the next decode step: its requests, and the total number of tokens before theirs. */
  decodeShape(): ReturnType<DecodeRun['shape']> {
    return this.#decodeRun.shape();
  }

  /**
   * Takes `count` decode steps: at most decodeSteps, and none may begin at or after dueMs. `onSteps` is called with a number
   * of steps taken, only the first of which may have changed blocks.
   */
  decode(count: number, onSteps: ((steps: number) => void) | null): void {
    this.#decodeRun.take(count, onSteps);
  }

  #collect(): void {
    this.#takeReports();
    const reports = this.#reports;
    this.#reports = [];
    for (const output of reports) this.#postprocessor.updateFromConnector(output);
  }

  #notifyWorkerSide(): void {
    const { connector } = this.#deps;
    if (connector && this.#metaIsDue())
      connector.worker.startLoadKv(connector.scheduler.buildConnectorMeta());
  }

  /** When poll() may next become true on a timer (a heartbeat, or the end of a hold), ms on the engine's clock; else null. */
  dueMs(): number | null {
    const { connector } = this.#deps;
    const scheduler = connector?.scheduler.metaDueMs() ?? null;
    const worker = connector?.worker.dueMs?.() ?? null;
    return scheduler === null || worker === null ? (scheduler ?? worker) : Math.min(scheduler, worker);
  }

  /**
   * Resolves when poll() may have become true without a call: the worker side has a report, or the scheduler side has
   * metadata for it (a heartbeat). Also resolves when the signal aborts; without a connector, only then.
   */
  async waitForChange(signal: AbortSignal): Promise<void> {
    const { connector, clock } = this.#deps;
    // AbortSignal.any would leak: Node retains such a signal for ever if a listener outlives its abort.
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

  /** Forgets all cached prefixes. vLLM's rule: returns false, and does nothing, unless only the null block is in use. */
  resetPrefixCache(): boolean {
    return this.#cache.resetPrefixCache();
  }

  /** Times of the sampled blocks that were evicted since the last call. */
  takeStays(): readonly BlockStay[] {
    return this.#deps.residency?.take() ?? [];
  }

  /** Removes the sequence's cached blocks beyond keepTokens from the prefix cache, so that a turn can be measured again. */
  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keepTokens: number): void {
    this.#cache.forgetPrefix(tokenIds, cacheSalt, keepTokens);
  }

  /** Called on every change to the prefix cache. No cost if null. */
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
      this.#reports.push(output);
  }

  /** The next step has reports, endings or metadata to process, even if no request runs. */
  #hasNews(): boolean {
    return this.#reports.length > 0 || this.#postprocessor.hasEndings || this.#metaIsDue();
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
