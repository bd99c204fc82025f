/** Everything that is heard of a cluster's engines and turns, each for whoever wants it. */
import { TurnSpans } from '../router/turn-spans.ts';
import { CacheWatch } from './cache-watch.ts';
import { EngineWatch } from './engine-watch.ts';
import { LoadWatch } from './report-watch.ts';
import type { ThreadEngine } from './thread-engine.ts';

export class Watches {
  readonly spans = new TurnSpans();
  readonly caches = new CacheWatch();
  readonly loads = new LoadWatch();
  readonly engines = new EngineWatch();

  /** One of those that were there from the start. */
  first(engine: ThreadEngine): void {
    this.#watch(engine, null);
    this.caches.watch(engine);
  }

  /** One that came later; `replaces`: in whose place, null: in its own. */
  joined(engine: ThreadEngine, replaces: string | null, atMs: number): void {
    this.#watch(engine, replaces);
    this.caches.watchAnew(engine, atMs);
  }

  #watch(engine: ThreadEngine, replaces: string | null): void {
    this.engines.watch(engine, replaces);
    this.loads.watch(engine);
    engine.onSpan((span) => this.spans.tell(span));
  }
}
