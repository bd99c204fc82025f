/** Spans on their way: to whoever listens, and to the turn under way that they belong to. */
import type { Span, SpanSink } from '../measure/spans.ts';
import type { ServedTurn } from './served-turn.ts';
import type { TurnSide } from './ways.ts';

export class TurnSpans {
  readonly #listeners = new Set<SpanSink>();
  /** By the ids of a turn's requests. */
  readonly #turns = new Map<string, ServedTurn>();

  listen(listener: SpanSink): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  turnGoes(served: ServedTurn, requestIds: Readonly<Record<TurnSide, string>>): void {
    for (const id of Object.values(requestIds)) this.#turns.set(id, served);
  }

  turnEnds(served: ServedTurn): void {
    for (const [id, turn] of this.#turns) if (turn === served) this.#turns.delete(id);
  }

  /** Since the start. */
  count = 0;

  tell(span: Span): void {
    this.count++;
    const { requestId, requestIds = [] } = span;
    for (const id of requestId === null ? requestIds : [requestId]) this.#turns.get(id)?.saw(span);
    for (const listener of this.#listeners) listener(span);
  }
}
