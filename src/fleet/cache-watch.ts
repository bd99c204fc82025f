/** Who listens to the engines' prefix caches. The engines report only while somebody does. */
import type { CacheEvent } from '../engine/cache-event.ts';
import type { ThreadEngine } from './thread-engine.ts';

/** One engine's changes since its last batch, in order. */
export interface CacheEventBatch {
  engineId: string;
  events: readonly CacheEvent[];
  /** On the shared clock, milliseconds. */
  atMs: number;
}

type Listener = (batch: CacheEventBatch) => void;

export class CacheWatch {
  readonly #engines = new Set<ThreadEngine>();
  readonly #listeners = new Set<Listener>();

  /** `anew`: the engine takes the place of one that ended, and what that one had cached is gone. */
  watch(engine: ThreadEngine, anew: { atMs: number } | null): void {
    this.#engines.add(engine);
    engine.onDeath(() => this.#engines.delete(engine));
    engine.onEvent((event) => {
      if (event.kind !== 'cache') return;
      this.#tell({ engineId: engine.engineId, events: event.events, atMs: event.atMs });
    });
    if (this.#listeners.size > 0) report(engine, true);
    if (anew) this.#tell({ engineId: engine.engineId, events: [{ kind: 'cleared' }], atMs: anew.atMs });
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) for (const engine of this.#engines) report(engine, true);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      for (const engine of this.#engines) report(engine, false);
    };
  }

  #tell(batch: CacheEventBatch): void {
    for (const listener of this.#listeners) listener(batch);
  }
}

/** Calls to an engine keep their order: it reports whatever a later request changes. */
function report(engine: ThreadEngine, wanted: boolean): void {
  engine.inspection.reportCacheEvents(wanted).catch(() => {});
}
