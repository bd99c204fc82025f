/** Distributes what engines report only on request: their load and their prefix cache events. */
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { EngineEvent } from '../host/engine-report.ts';
import type { ThreadEngine } from './thread-engine.ts';

export abstract class ReportWatch<News> {
  readonly #engines = new Set<ThreadEngine>();
  readonly #listeners = new Set<(news: News) => void>();

  watch(engine: ThreadEngine): void {
    this.#engines.add(engine);
    engine.onDeath(() => this.#engines.delete(engine));
    engine.onEvent((event) => {
      const news = this.newsOf(engine, event);
      if (news) this.report(news);
    });
    if (this.#listeners.size > 0) this.setReporting(engine, true);
  }

  listen(listener: (news: News) => void): () => void {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) for (const engine of this.#engines) this.setReporting(engine, true);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      for (const engine of this.#engines) this.setReporting(engine, false);
    };
  }

  protected report(news: News): void {
    for (const listener of this.#listeners) listener(news);
  }

  /** Calls to an engine keep their order, so it reports everything that later requests change. */
  protected abstract setReporting(engine: ThreadEngine, enabled: boolean): void;

  protected abstract newsOf(engine: ThreadEngine, event: EngineEvent): News | null;
}

export interface LoadNews {
  engineId: string;
  load: EngineLoad;
}

export class LoadWatch extends ReportWatch<LoadNews> {
  protected setReporting(engine: ThreadEngine, enabled: boolean): void {
    engine.inspection.reportLoad(enabled).catch(() => {});
  }

  protected newsOf({ engineId }: ThreadEngine, event: EngineEvent): LoadNews | null {
    return event.kind === 'load' ? { engineId, load: event.load } : null;
  }
}
