/**
 * Distributes all events of a cluster's engines, and each turn as it is accepted, to listeners that draw or record
 * the cluster.
 */

import { deathReason } from '../errors.ts';
import type { ClusterNotice } from './notices.ts';
import type { ThreadEngine } from './thread-engine.ts';

export class EngineWatch {
  readonly #listeners = new Set<(notice: ClusterNotice) => void>();
  readonly #leaving = new Set<string>();
  /** The store's messages before there was a listener. */
  readonly #undelivered: ClusterNotice[] = [];

  watch(engine: ThreadEngine, replaces: string | null): void {
    const { engineId, role } = engine;
    this.notify({ kind: 'alive', engineId, role, replaces });
    engine.onEvent((event) => this.notify({ kind: 'engine', engineId, role, event }));
    engine.onDeath((error) => {
      if (!this.#leaving.delete(engineId))
        this.notify({ kind: 'dead', engineId, role, message: error.message, reason: deathReason(error) });
    });
  }

  listen(listener: (notice: ClusterNotice) => void): () => void {
    for (const notice of this.#undelivered) listener(notice);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(notice: ClusterNotice): void {
    if (notice.kind === 'leaving') this.#leaving.add(notice.engineId);
    if (notice.kind === 'store' && this.#listeners.size === 0) this.#undelivered.push(notice);
    for (const listener of this.#listeners) listener(notice);
  }
}
