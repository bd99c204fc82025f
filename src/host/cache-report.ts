/**
 * Collects the prefix cache's changes between two messages to the router's thread. Collects nothing while there is no
 * listener.
 */

import type { CacheEvent } from '../engine/cache-event.ts';
import type { EngineCore } from '../engine/engine-core.ts';

export class CacheReport {
  #events: CacheEvent[] = [];
  #core: EngineCore | null = null;
  #enabled = false;

  setEnabled(enabled: boolean): void {
    this.#enabled = enabled;
    if (!enabled) this.#events = [];
    this.#attach();
  }

  /** Call when the policy has been built. If it replaces another, the cache has been cleared. */
  coreIs(core: EngineCore): void {
    if (this.#core && this.#enabled) this.#events.push({ kind: 'cleared' });
    this.#core = core;
    this.#attach();
  }

  /** Returns the events since the last call. */
  take(): CacheEvent[] {
    if (this.#events.length === 0) return this.#events;
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #attach(): void {
    if (this.#core) this.#core.onCacheEvent = this.#enabled ? (event) => this.#events.push(event) : null;
  }
}
