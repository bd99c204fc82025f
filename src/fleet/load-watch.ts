/** Distributes what engines report of their load. They report it only while there is a listener. */
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { ThreadEngine } from './thread-engine.ts';

export interface LoadNews {
  engineId: string;
  load: EngineLoad;
}

export class LoadWatch {
  readonly #engines = new Set<ThreadEngine>();
  readonly #listeners = new Set<(news: LoadNews) => void>();
  /** The last report of each engine while there has been a listener: an idle engine sends no other. */
  readonly #last = new Map<ThreadEngine, LoadNews>();

  watch(engine: ThreadEngine): void {
    this.#engines.add(engine);
    engine.onDeath(() => {
      this.#engines.delete(engine);
      this.#last.delete(engine);
    });
    engine.onEvent((event) => {
      if (event.kind === 'load') this.#heard(engine, event.load);
    });
    if (this.#listeners.size > 0) setReporting(engine, true);
  }

  /** Calls the listener with each engine's load as far as it is known, and then with every report. */
  listen(listener: (news: LoadNews) => void): () => void {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) for (const engine of this.#engines) setReporting(engine, true);
    for (const news of this.#last.values()) listener(news);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      for (const engine of this.#engines) setReporting(engine, false);
      this.#last.clear();
    };
  }

  #heard(engine: ThreadEngine, load: EngineLoad): void {
    // A report that was under way when the last listener left.
    if (this.#listeners.size === 0) return;
    const news = { engineId: engine.engineId, load };
    if (this.#engines.has(engine)) this.#last.set(engine, news);
    for (const listener of this.#listeners) listener(news);
  }
}

function setReporting(engine: ThreadEngine, enabled: boolean): void {
  engine.inspection.reportLoad(enabled).catch(() => {});
}
