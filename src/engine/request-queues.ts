/** Where each request stands. The scheduler moves requests on, Outcomes takes them out; nothing is decided here. */
import type { Request } from './request.ts';

export type QueueName = 'waiting' | 'loading' | 'loaded' | 'running' | 'held';

export class RequestQueues {
  /** All that are not forgotten: also finished ones whose blocks are held. */
  readonly known = new Map<string, Request>();
  /** First come, first served; preempted ones at the front. None has blocks. */
  readonly waiting: Request[] = [];
  /** Blocks allocated, KV on its way. */
  readonly loading = new Set<Request>();
  /** KV came, not yet running. They have blocks, so they come before the waiting. */
  readonly loaded: Request[] = [];
  /** In order of admission. */
  readonly running: Request[] = [];
  /**
   * Counts what may get someone on who did not get on before: requests come and end, blocks are given back, the connector
   * reports something.
   */
  changes = 0;

  /** Loads count, so that a request has its place when its KV came. */
  get numAdmitted(): number {
    return this.running.length + this.loading.size + this.loaded.length;
  }

  add(request: Request): void {
    this.known.set(request.requestId, request);
    this.waiting.push(request);
    this.changes++;
  }

  /** Takes the request out of whichever queue it is in; it stays known. */
  remove(request: Request): void {
    this.changes++;
    this.loading.delete(request);
    for (const queue of [this.waiting, this.loaded, this.running]) {
      const index = queue.indexOf(request);
      if (index >= 0) queue.splice(index, 1);
    }
  }

  byName(): Record<QueueName, readonly Request[]> {
    return {
      waiting: this.waiting,
      loading: [...this.loading],
      loaded: this.loaded,
      running: this.running,
      held: [...this.known.values()].filter((request) => request.heldFor !== null),
    };
  }
}
