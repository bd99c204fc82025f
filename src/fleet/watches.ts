/** All sources of a cluster's reports: spans, cache events, loads and engine events. */
import { TurnSpans } from '../router/turn-spans.ts';
import { CacheWatch } from './cache-watch.ts';
import { EngineWatch } from './engine-watch.ts';
import { LoadWatch } from './load-watch.ts';
import type { ThreadEngine } from './thread-engine.ts';

export class Watches {
  readonly spans = new TurnSpans();
  readonly caches = new CacheWatch();
  readonly loads = new LoadWatch();
  readonly engines = new EngineWatch();

  /** Watches an engine that was there from the start. */
  first(engine: ThreadEngine): void {
    this.#watch(engine, null);
    this.caches.watch(engine);
  }

  /** Watches an engine that joined later. `replaces`: id of the engine whose seat it took; null: a new seat. */
  joined(engine: ThreadEngine, replaces: string | null, atMs: number): void {
    this.#watch(engine, replaces);
    this.caches.watchReplacement(engine, atMs);
  }

  #watch(engine: ThreadEngine, replaces: string | null): void {
    this.engines.watch(engine, replaces);
    this.loads.watch(engine);
    engine.onSpan((span) => this.spans.report(span));
  }
}
