/** Everything that a cluster's engines say, and each turn as it is accepted, for whoever draws or records a cluster. */

import type { EngineEvent } from '../host/messages.ts';
import type { Side } from '../measure/spans.ts';
import type { EngineHandle } from './engine-handle.ts';

interface OfEngine {
  engineId: string;
  role: EngineHandle['role'];
}

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
  /** An engine gets a request of that turn. */
  | { kind: 'request'; requestId: string; turnId: string; side: Side; engineId: string }
  | ({ kind: 'engine'; event: EngineEvent } & OfEngine)
  | ({ kind: 'alive' } & OfEngine)
  | ({ kind: 'dead'; message: string } & OfEngine);

export class EngineWatch {
  readonly #listeners = new Set<(notice: ClusterNotice) => void>();

  watch(engine: EngineHandle): void {
    const { engineId, role } = engine;
    this.tell({ kind: 'alive', engineId, role });
    engine.onEvent((event) => this.tell({ kind: 'engine', engineId, role, event }));
    engine.onDeath((error) => this.tell({ kind: 'dead', engineId, role, message: error.message }));
  }

  listen(listener: (notice: ClusterNotice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(notice: ClusterNotice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}
