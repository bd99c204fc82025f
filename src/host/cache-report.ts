/**
 * Collects the prefix cache's changes between two messages to the router's thread. Collects nothing while there is no
 * listener.
 */

import type { CacheEvent } from '../engine/cache-event.ts';
import type { EngineCore } from '../engine/engine-core.ts';

/** `to`: the listener for whom this is what the cache contains; null: changes, for all listeners. */
export interface CacheReportBatch {
  events: CacheEvent[];
  to: number | null;
}

export class CacheReport {
  #batches: CacheReportBatch[] = [];
  #core: EngineCore | null = null;
  #enabled = false;

  /** Reports what the cache contains to this listener, even if that is nothing; then all changes. */
  begin(to: number): void {
    this.#batches.push({ events: this.#core?.inspect.cacheContents() ?? [], to });
    this.#enabled = true;
    this.#attach();
  }

  stop(): void {
    this.#enabled = false;
    this.#batches = [];
    this.#attach();
  }

  /** Call when the policy has been built. If it replaces another, the cache has been cleared. */
  coreIs(core: EngineCore): void {
    if (this.#core && this.#enabled) this.#changed({ kind: 'cleared' });
    this.#core = core;
    this.#attach();
  }

  /** Returns what is to be reported since the last call. */
  take(): readonly CacheReportBatch[] {
    if (this.#batches.length === 0) return this.#batches;
    const batches = this.#batches;
    this.#batches = [];
    return batches;
  }

  #changed(event: CacheEvent): void {
    const last = this.#batches.at(-1);
    if (last?.to === null) last.events.push(event);
    else this.#batches.push({ events: [event], to: null });
  }

  #attach(): void {
    if (this.#core) this.#core.onCacheEvent = this.#enabled ? (event) => this.#changed(event) : null;
  }
}
