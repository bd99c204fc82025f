/** Distributes the engines' prefix cache events. Engines report them only while there is a listener. */
import { Followers } from './followers.ts';
import type { CacheEventBatch } from './notices.ts';
import type { ThreadEngine } from './thread-engine.ts';

interface Listener {
  tell: (batch: CacheEventBatch) => void;
  /** Functions that end its following, by engine. */
  ends: Map<ThreadEngine, () => void>;
}

export class CacheWatch {
  readonly #engines = new Map<ThreadEngine, Followers>();
  readonly #listeners = new Set<Listener>();

  watch(engine: ThreadEngine): void {
    const { engineId } = engine;
    // Calls to an engine keep their order, so it reports everything that later requests change.
    const followers = new Followers((to) => {
      engine.inspection.reportCacheEvents(to).catch(() => {});
    });
    this.#engines.set(engine, followers);
    for (const { tell, ends } of this.#listeners) ends.set(engine, followers.add(tell));
    engine.onDeath(() => {
      this.#engines.delete(engine);
      for (const { ends } of this.#listeners) ends.delete(engine);
    });
    engine.onEvent((event) => {
      if (event.kind !== 'cache') return;
      const { events, atMs, to } = event;
      followers.tell({ engineId, events, atMs }, to);
    });
  }

  /**
   * Call for an engine that joined later. A replacement's cache is empty, so listeners are told that it was cleared.
   */
  watchReplacement(engine: ThreadEngine, atMs: number): void {
    this.watch(engine);
    const cleared: CacheEventBatch = { engineId: engine.engineId, events: [{ kind: 'cleared' }], atMs };
    for (const { tell } of this.#listeners) tell(cleared);
  }

  /** Calls the listener with what each engine has cached now, and then with all changes. */
  listen(tell: (batch: CacheEventBatch) => void): () => void {
    const listener: Listener = { tell, ends: new Map() };
    this.#listeners.add(listener);
    for (const [engine, followers] of this.#engines) listener.ends.set(engine, followers.add(tell));
    return () => {
      this.#listeners.delete(listener);
      for (const end of listener.ends.values()) end();
    };
  }
}
