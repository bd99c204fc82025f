/** Everything that a cluster's engines say, and each turn as it is accepted, for whoever draws or records a cluster. */

import type { EngineEvent } from '../host/engine-api.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { ThreadEngine } from './thread-engine.ts';

export type ClusterNotice =
  /** The router accepted a turn. */
  | {
      kind: 'turn';
      turnId: string;
      conversationId: string;
      /** From 1 on. */
      turn: number;
      promptTokenIds: readonly number[];
      atMs: number;
    }
  | { kind: 'engine'; role: EngineRole; event: EngineEvent }
  | { kind: 'alive'; role: EngineRole }
  | { kind: 'dead'; role: EngineRole; message: string };

export class EngineWatch {
  readonly #listeners = new Set<(notice: ClusterNotice) => void>();

  watch(engine: ThreadEngine): void {
    const { role } = engine;
    this.tell({ kind: 'alive', role });
    engine.onEvent((event) => this.tell({ kind: 'engine', role, event }));
    engine.onDeath((error) => this.tell({ kind: 'dead', role, message: error.message }));
  }

  listen(listener: (notice: ClusterNotice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(notice: ClusterNotice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}
