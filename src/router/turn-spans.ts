/** Spans on their way: to whoever listens, and to the turn under way that they belong to. */
import { type Span, type SpanSink, turnOfRequest } from '../measure/spans.ts';
import type { ServedTurn } from './served-turn.ts';

export class TurnSpans {
  readonly #listeners = new Set<SpanSink>();
  /** By the turn's id. */
  readonly #open = new Map<string, ServedTurn>();

  listen(listener: SpanSink): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  turnBegins(served: ServedTurn): void {
    this.#open.set(served.turn.requestId, served);
  }

  turnEnds(served: ServedTurn): void {
    this.#open.delete(served.turn.requestId);
  }

  /** Since the start. */
  count = 0;

  tell(span: Span): void {
    this.count++;
    const { requestId, requestIds = [] } = span;
    for (const id of requestId === null ? requestIds : [requestId]) {
      this.#open.get(turnOfRequest(id).turnId)?.saw(span);
    }
    for (const listener of this.#listeners) listener(span);
  }
}
