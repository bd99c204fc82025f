/**
 * Distributes spans: stamps each with the turns it belongs to, then passes it to the listeners and to those turns
 * that are still being served.
 */
import { invariant } from '../errors.ts';
import type { OfTurn, RawSpan, Span } from '../measure/spans/spans.ts';
import type { ServedTurn } from './served-turn.ts';

/** Number of ended turns whose late spans are still attributed to them. */
const MOST_ENDED = 256;

interface KnownTurn {
  /** null once it has ended. */
  served: ServedTurn | null;
  requestIds: string[];
}

export class TurnSpans {
  readonly #listeners = new Set<(span: Span) => void>();
  /** By turn id. */
  readonly #turns = new Map<string, KnownTurn>();
  /** Ids of ended turns, oldest first. */
  readonly #ended: string[] = [];
  readonly #owners = new Map<string, OfTurn>();
  /** Spans since the start. */
  count = 0;

  listen(listener: (span: Span) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether anyone listens. */
  get hasListeners(): boolean {
    return this.#listeners.size > 0;
  }

  turnBegins(served: ServedTurn): void {
    const { turnId } = served.facts;
    this.#turns.set(turnId, { served, requestIds: [] });
    // For the turn's own spans.
    this.attribute(turnId, { turnId, side: 'prefill' });
  }

  /** Call before a request of a turn under way is submitted. */
  attribute(requestId: string, owner: OfTurn): void {
    const turn = this.#turns.get(owner.turnId);
    invariant(turn, () => `${requestId} is of turn ${owner.turnId}, which has not begun`);
    turn.requestIds.push(requestId);
    this.#owners.set(requestId, owner);
  }

  turnEnds(served: ServedTurn): void {
    const { turnId } = served.facts;
    const turn = this.#turns.get(turnId);
    if (!turn) return;
    turn.served = null;
    if (!this.hasListeners) {
      this.#forget(turnId);
      return;
    }
    this.#ended.push(turnId);
    if (this.#ended.length > MOST_ENDED) this.#forget(this.#ended.shift()!);
  }

  report(span: RawSpan): void {
    this.count++;
    const { requestId, requestIds = [] } = span;
    const ids = requestId === null ? requestIds : [requestId];
    const turns = ids.flatMap((id) => this.#owners.get(id) ?? []);
    const stamped: Span = { ...span, turns };
    for (const turnId of new Set(turns.map((turn) => turn.turnId)))
      this.#turns.get(turnId)?.served?.addSpan(stamped);
    for (const listener of this.#listeners) listener(stamped);
  }

  #forget(turnId: string): void {
    for (const id of this.#turns.get(turnId)?.requestIds ?? []) this.#owners.delete(id);
    this.#turns.delete(turnId);
  }
}
