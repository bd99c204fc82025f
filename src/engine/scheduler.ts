/**
 * Decides which requests run in the next step, with which tokens and blocks. This is vLLM's V1 scheduler: continuous batching
 * with chunked prefill, preemption of the most recently admitted request, and remote KV loads alongside running requests.
 * Synchronous. Moves no bytes and runs no model; results are handled in postprocess.ts.
 */

import { isStreamedPrefill } from '../config/connectors.ts';
import type { EngineCoreConfig } from '../config/engine.ts';
import { invariant } from '../errors.ts';
import type { PrefixHit } from './block-table.ts';
import type { EngineCounters } from './counters.ts';
import type { KvCacheManager } from './kv-cache-manager.ts';
import type { KvConnector, Pressure } from './kv-connector.ts';
import type { Request } from './request.ts';
import type { ScheduledBatch, ScheduledRequest } from './types.ts';

/** State shared by scheduling and postprocessing. */
export interface PolicyDeps {
  config: EngineCoreConfig;
  queues: RequestQueues;
  cache: KvCacheManager;
  /** null for an engine that neither sends nor pulls. */
  connector: KvConnector | null;
  counters: EngineCounters;
}

/** The queue that each request is in. The scheduler advances requests; postprocessing removes them. */
export class RequestQueues {
  /** All requests by id, including finished ones whose blocks are held. */
  readonly known = new Map<string, Request>();
  /** First come, first served, with preempted requests at the front. None has blocks. */
  readonly waiting: Request[] = [];
  /** Blocks are allocated, and KV is being loaded into them. */
  readonly loading = new Set<Request>();
  /** KV has arrived, not yet running. They have blocks, so they are scheduled before the waiting ones. */
  readonly loaded: Request[] = [];
  /** In order of admission. */
  readonly running: Request[] = [];
  /** Incremented by events that may unblock a request: requests arrive or end, or the connector reports something. */
  changes = 0;

  /** Includes loading requests, so that a place is free for a request when its KV has arrived. */
  get numAdmitted(): number {
    return this.running.length + this.loading.size + this.loaded.length;
  }

  /** Finished requests that keep their blocks. */
  get held(): Request[] {
    return [...this.known.values()].filter((request) => request.heldFor !== null);
  }

  get numHeld(): number {
    return this.known.size - this.numAdmitted - this.waiting.length;
  }

  add(request: Request): void {
    this.known.set(request.requestId, request);
    this.waiting.push(request);
    this.changes++;
  }

  /** Removes the request from its queue. It stays in `known`. */
  remove(request: Request): void {
    this.loading.delete(request);
    for (const queue of [this.waiting, this.loaded, this.running]) {
      const index = queue.indexOf(request);
      if (index >= 0) queue.splice(index, 1);
    }
    this.changes++;
  }
}

export interface SchedulerDeps extends PolicyDeps {
  /** Frees the blocks of the oldest hold that may be dropped; false if there is none. Ends no load. */
  dropOldestHold: (pressure: Pressure) => boolean;
  /** Called after each lookup in the prefix cache and connector, with the times from `now` before and after it. */
  onLookup?: { now: () => number; report: (requestId: string, startMs: number, endMs: number) => void };
}

/** Size of a streamed prompt's last step, as a share of a full step. A quarter step still computes a row about as fast. */
const STREAMED_LAST_STEP = 1 / 4;

interface StepPlan {
  tokenBudget: number;
  requests: ScheduledRequest[];
  preempted: boolean;
  loads: boolean;
}

export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #queues: RequestQueues;
  /** Value of queues.changes at the last plan, if that plan advanced no request; else null. */
  #stalledAtChange: number | null = null;

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#queues = deps.queues;
  }

  /** Whether a plan now may advance a request. If the last plan advanced none, waiting requests are parked until a change. */
  get canSchedule(): boolean {
    const { running, waiting, loaded, changes } = this.#queues;
    return running.length > 0 || (waiting.length + loaded.length > 0 && changes !== this.#stalledAtChange);
  }

  schedule(): ScheduledBatch {
    const { maxNumBatchedTokens } = this.#deps.config.scheduler;
    const { changes } = this.#queues;
    const plan: StepPlan = { tokenBudget: maxNumBatchedTokens, requests: [], preempted: false, loads: false };
    const { running, waiting } = this.#queues;
    if (running.length > 0) this.#scheduleRunning(plan);
    if (!plan.preempted && this.#scheduleLoaded(plan) && waiting.length > 0) this.#scheduleWaiting(plan);
    const gotOn = plan.requests.length > 0 || plan.preempted || plan.loads;
    this.#stalledAtChange = gotOn ? null : changes;
    if (plan.requests.length > 0) this.#deps.counters.forwardPasses++;
    return { step: this.#deps.counters.steps++, requests: plan.requests };
  }

  #scheduleRunning(plan: StepPlan): void {
    for (let i = 0; i < this.#queues.running.length && plan.tokenBudget > 0; i++) {
      const request = this.#queues.running[i]!;
      const numNewTokens = this.#chunk(request, request.numComputedTokens, plan);
      if (!this.#growRunning(request, numNewTokens, plan)) break;
      this.#plan(request, numNewTokens, plan);
    }
  }

  /** Gets blocks for a running request: from holds, then by preempting later ones. False if it was itself preempted. */
  #growRunning(request: Request, numNew: number, plan: StepPlan): boolean {
    while (!this.#deps.cache.allocateSlots(request, request.numComputedTokens, numNew)) {
      const alone = this.#queues.running.length === 1 && this.#queues.loading.size === 0;
      if (this.#deps.dropOldestHold(alone ? 'stuck' : 'waiting')) continue;
      const victim = this.#queues.running.pop()!;
      this.#preempt(victim);
      plan.preempted = true;
      if (victim === request) return false;
    }
    return true;
  }

  /** Returns whether the loaded queue is now empty. */
  #scheduleLoaded(plan: StepPlan): boolean {
    const { cache, connector } = this.#deps;
    while (this.#queues.loaded.length > 0 && plan.tokenBudget > 0) {
      const request = this.#queues.loaded[0]!;
      const { numComputedTokens } = request;
      const numNewTokens = this.#chunk(request, numComputedTokens, plan);
      if (!cache.allocateSlots(request, numComputedTokens, numNewTokens)) {
        if (this.#makeRoom()) continue;
        return false;
      }
      this.#queues.loaded.shift();
      connector?.scheduler.updateStateAfterAlloc(request, cache.blockIds(request), numComputedTokens, 0);
      this.#run(request, numNewTokens, plan);
    }
    return this.#queues.loaded.length === 0;
  }

  #scheduleWaiting(plan: StepPlan): void {
    const { cache, connector, config } = this.#deps;
    const { waiting } = this.#queues;
    const hasPlace = () => plan.tokenBudget > 0 && this.#queues.numAdmitted < config.scheduler.maxNumSeqs;
    for (let index = 0; index < waiting.length && hasPlace(); ) {
      const request = waiting[index]!;
      const { hit, match } = this.#lookup(request);
      request.isUnanswered = match === null;
      if (!match) {
        index++;
        continue;
      }
      const load = match.tokens > 0;
      const computed = hit.numTokens + match.tokens;
      const numNewTokens = load ? 0 : this.#chunk(request, computed, plan);
      if (!this.#fits(request, hit, computed)) {
        if (this.#makeRoom()) continue;
        return;
      }
      const allocated = cache.allocateSlots(request, computed, numNewTokens, hit, load);
      invariant(allocated, () => `${request.requestId}: fits whole, but not in part`);
      waiting.splice(index, 1);
      this.#countQueries(request, hit.numTokens);
      request.beginPrefill(hit.numTokens, match.tokens, match.noPull);
      const blockIds = cache.blockIds(request);
      connector?.scheduler.updateStateAfterAlloc(request, blockIds, hit.numTokens, match.tokens);
      if (load) this.#load(request, plan);
      else this.#run(request, numNewTokens, plan);
    }
  }

  /**
   * Number of tokens in the request's next step. A streamed prompt ends with a small step that starts at a block boundary,
   * so that little is left to transfer after it.
   */
  #chunk({ numTokens, kvTransferParams }: Request, computed: number, { tokenBudget }: StepPlan): number {
    const mostTokens = Math.min(numTokens - computed, tokenBudget);
    if (!isStreamedPrefill(kvTransferParams)) return mostTokens;
    const { blockSize } = this.#deps.cache;
    const { maxNumBatchedTokens } = this.#deps.config.scheduler;
    const lastStep = Math.max(blockSize, Math.floor(maxNumBatchedTokens * STREAMED_LAST_STEP));
    if (numTokens - computed <= lastStep) return mostTokens;
    return Math.min(mostTokens, Math.ceil((numTokens - lastStep) / blockSize) * blockSize - computed);
  }

  #lookup(request: Request) {
    const { cache, connector, onLookup } = this.#deps;
    const startMs = onLookup?.now() ?? 0;
    const hit = cache.getComputedBlocks(request);
    const match = connector
      ? connector.scheduler.getNumNewMatchedTokens(request, hit.numTokens)
      : { tokens: 0, noPull: null };
    onLookup?.report(request.requestId, startMs, onLookup.now());
    return { hit, match };
  }

  /**
   * Whether blocks suffice for all of the request's tokens and those of requests admitted before it. A request admitted on
   * its first chunk alone would be preempted again, or its loaded prefix would occupy blocks that others wait for.
   */
  #fits(request: Request, hit: PrefixHit, computed: number): boolean {
    const { cache, queues } = this.#deps;
    return cache.canAllocate(cache.maxBlocksNeeded(request, hit, computed) + blocksOfAdmitted(queues, cache));
  }

  /**
   * Makes room for a waiting request. Drops a hold that nobody is reading: holds would otherwise crowd out running requests
   * one by one. If nothing is running or loading, preempts the last loaded request. False if neither is possible.
   */
  #makeRoom(): boolean {
    const stuck = this.#queues.running.length === 0 && this.#queues.loading.size === 0;
    if (this.#deps.dropOldestHold(stuck ? 'stuck' : 'waiting')) return true;
    if (!stuck || this.#queues.loaded.length < 2) return false;
    this.#preempt(this.#queues.loaded.pop()!);
    return true;
  }

  #load(request: Request, plan: StepPlan): void {
    request.status = 'waiting_for_remote_kvs';
    this.#queues.loading.add(request);
    plan.loads = true;
  }

  #run(request: Request, numNewTokens: number, plan: StepPlan): void {
    request.status = 'running';
    this.#queues.running.push(request);
    this.#plan(request, numNewTokens, plan);
  }

  #plan(request: Request, numNewTokens: number, plan: StepPlan): void {
    const start = request.numComputedTokens;
    const complete = start + numNewTokens === request.numTokens;
    plan.requests.push({
      requestId: request.requestId,
      tokenIds: request.tokenIds(start, numNewTokens),
      startPosition: start,
      blockIds: this.#deps.cache.blockIds(request),
      sample: complete
        ? {
            params: request.sampling,
            outputIndex: request.numOutputTokens,
            forbiddenTokenIds: request.forbiddenTokenIds(this.#deps.config.eosTokenIds),
          }
        : null,
    });
    plan.tokenBudget -= numNewTokens;
  }

  /** Frees all its blocks. It goes to the front of the waiting queue and starts over. */
  #preempt(request: Request): void {
    this.#deps.cache.free(request);
    request.status = 'preempted';
    request.numPreemptions++;
    request.restart();
    this.#deps.connector?.streams?.requestPreempted(request);
    this.#queues.waiting.unshift(request);
    this.#deps.counters.preemptions++;
  }

  /** Once per request: after a preemption, a request hits its own blocks, which does not count. */
  #countQueries(request: Request, localHitTokens: number): void {
    if (request.wasAdmitted) return;
    const { config, connector, counters } = this.#deps;
    const { prefixCache, externalPrefixCache } = counters;
    if (config.cache.enablePrefixCaching) {
      prefixCache.queries += request.numTokens;
      prefixCache.hits += localHitTokens;
    }
    if (connector) externalPrefixCache.queries += request.numTokens - localHitTokens;
  }
}

/** The most free blocks that running and loading requests take until all their tokens have KV. */
export function blocksOfAdmitted({ running, loading }: RequestQueues, cache: KvCacheManager): number {
  let needed = 0;
  for (const request of running) needed += cache.maxBlocksNeeded(request, null, request.numComputedTokens);
  for (const request of loading) needed += cache.maxBlocksNeeded(request, null, request.numComputedTokens);
  return needed;
}
