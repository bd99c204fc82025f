/**
 * Reports what an engine's steps spend time on, and how long requests wait for a step. Pure decode steps are not reported, so
 * the cost is negligible. Observes only.
 */
import type { KvCacheManager } from '../kv-cache-manager.ts';
import type { Request } from '../request.ts';
import type { RequestQueues } from '../scheduler.ts';
import { type Clock, type EngineActivity, NULL_BLOCK, type ScheduledBatch } from '../types.ts';

export type ActivitySink = (activity: EngineActivity) => void;

export interface ActivitiesDeps {
  clock: Clock;
  queues: RequestQueues;
  cache: KvCacheManager;
  report: ActivitySink;
}

export class Activities {
  readonly #deps: ActivitiesDeps;
  #step = -1;
  #begunMs = 0;
  #runMs = 0;
  #ranMs = 0;
  /** The step admits, loads or prefills something, so it is reported. */
  #reporting = false;
  #lastFree: number | null = null;
  /** Ended requests that held blocks after the last step. */
  #lastHeld = 0;
  /** By block id: 1 if already counted. Reused buffer. */
  readonly #counted: Uint8Array;

  constructor(deps: ActivitiesDeps) {
    this.#deps = deps;
    this.#counted = new Uint8Array(deps.cache.numUsable + 1);
  }

  readonly now = (): number => this.#deps.clock.now();

  readonly lookup = (requestId: string, startMs: number, endMs: number): void => {
    this.#deps.report({
      name: 'lookup',
      startMs,
      endMs,
      step: this.#step,
      requestIds: [requestId],
      blocks: null,
    });
  };

  waits(request: Request): void {
    request.waitingSinceMs = this.now();
  }

  stepBegins(): void {
    this.#step++;
    this.#begunMs = this.now();
  }

  /** The step is planned, and the worker side has its metadata. The batch runs next. */
  planned(batch: ScheduledBatch): void {
    const { queues } = this.#deps;
    this.#runMs = this.now();
    const planned = batch.requests.flatMap(({ requestId }) => queues.known.get(requestId) ?? []);
    const begun = [...planned, ...queues.loading].filter(({ waitingSinceMs }) => waitingSinceMs !== null);
    const early = planned.filter(({ prompt }) => prompt === null);
    for (const request of begun) {
      if (request.prompt === null)
        this.#report('queue', Math.min(request.waitingSinceMs!, this.#begunMs), this.#begunMs, [request]);
      request.waitingSinceMs = null;
    }
    const concerned = [...new Set([...early, ...begun.filter((request) => queues.loading.has(request))])];
    this.#reporting = concerned.length > 0;
    if (this.#reporting) this.#report('schedule', this.#begunMs, this.#runMs, concerned);
  }

  /** The batch has run. Its results are processed next. */
  ran(): void {
    this.#ranMs = this.now();
  }

  stepEnds(batch: ScheduledBatch): void {
    const { queues, cache, report } = this.#deps;
    const endMs = this.now();
    const ranMs = this.#ranMs;
    const requestIds = batch.requests.map(({ requestId }) => requestId);
    const step = this.#step;
    if (this.#reporting) {
      report({ name: 'step', startMs: this.#runMs, endMs: ranMs, step, requestIds, blocks: null });
    }
    const free = cache.numFree;
    const held = queues.numHeld;
    // A request that ends and is held frees no blocks.
    if (this.#reporting || free !== this.#lastFree || held !== this.#lastHeld) {
      const blocks = { free, held: this.#heldBlocks() };
      report({ name: 'collect', startMs: ranMs, endMs, step, requestIds, blocks });
    }
    this.#lastFree = free;
    this.#lastHeld = held;
    for (const id of requestIds) {
      const request = queues.known.get(id);
      if (request && !request.isFinished) request.waitingSinceMs = endMs;
    }
  }

  /** Blocks of all KV cache groups. A block that several ended requests hold counts once. */
  #heldBlocks(): number {
    const { queues, cache } = this.#deps;
    const counted = this.#counted.fill(0);
    let held = 0;
    for (const request of queues.held)
      for (const ids of cache.blockIds(request))
        for (const id of ids) {
          if (id === NULL_BLOCK || counted[id] === 1) continue;
          counted[id] = 1;
          held++;
        }
    return held;
  }

  #report(name: 'queue' | 'schedule', startMs: number, endMs: number, requests: readonly Request[]): void {
    const requestIds = requests.map(({ requestId }) => requestId);
    this.#deps.report({ name, startMs, endMs, step: this.#step, requestIds, blocks: null });
  }
}
