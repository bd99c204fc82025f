/** The last turns of a watched fleet: how each was routed, and what its way over the engines took. */
import { laneName, type Span } from '../../measure/spans.ts';
import { STAGES, stagePieces } from '../../measure/stages.ts';
import type { TurnNotice } from '../../router/router.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import type { LiveDecision, PathPiece, TurnPath } from './look.ts';

const MOST_TURNS = 400;
const MOST_SPANS = 300;
/** Of each look. */
const SHOWN = 12;
/** Spans that only lie around others; of a simulated transfer nothing else is told. */
const AROUND = new Set(['step', 'ttft', 'turn']);

interface Logged {
  decision: LiveDecision;
  acceptedMs: number;
  latencyMs: number | null;
  spans: Span[];
}

export class TurnLog {
  /** By turn's id, oldest first. */
  readonly #turns = new Map<string, Logged>();
  /** Turns under way, by conversation. */
  readonly #underWay = new Map<string, Logged>();

  begins({ turnId, conversationId, turn, promptTokenIds, atMs, routed }: TurnNotice): void {
    if (!routed) return;
    const promptTokens = promptTokenIds.length;
    const decision = { turnId, conversationId, turn, promptTokens, routed, ttftMs: null };
    const logged = { decision, acceptedMs: atMs, latencyMs: null, spans: [] };
    this.#turns.set(turnId, logged);
    this.#underWay.set(conversationId, logged);
    if (this.#turns.size <= MOST_TURNS) return;
    const [oldest] = this.#turns.keys();
    this.#forget(oldest!);
  }

  ends({ conversationId, ttftMs, latencyMs }: TurnResult): void {
    const logged = this.#underWay.get(conversationId);
    if (!logged) return;
    this.#underWay.delete(conversationId);
    logged.latencyMs = latencyMs;
    logged.decision = { ...logged.decision, ttftMs };
  }

  saw(span: Span): void {
    for (const { turnId } of span.turns) {
      const logged = this.#turns.get(turnId);
      if (logged && logged.spans.length < MOST_SPANS && logged.spans.at(-1) !== span) logged.spans.push(span);
    }
  }

  get last(): readonly LiveDecision[] {
    return [...this.#turns.values()].slice(-SHOWN).map(({ decision }) => decision);
  }

  /** null: it is not remembered. */
  path(turnId: string): TurnPath | null {
    const logged = this.#turns.get(turnId);
    if (!logged) return null;
    const { decision, acceptedMs, latencyMs, spans } = logged;
    const lasts = ({ name, startMs, endMs }: Span) => name === 'route' || endMs > startMs;
    const told = spans.filter((span) => !AROUND.has(span.name) && lasts(span));
    const pieces = told.map((span) => pieceOf(span, turnId, acceptedMs));
    const { ttftMs, routed } = decision;
    // Decode steps in which nothing changes are taken at once, and tell nothing.
    if (ttftMs !== null && latencyMs !== null)
      pieces.push({
        ...{ name: 'decode', lane: `${routed.decode} host`, group: 'decode' },
        ...{ startMs: ttftMs, endMs: latencyMs, bytes: null },
      });
    return { decision, latencyMs, pieces: pieces.sort((a, b) => a.startMs - b.startMs) };
  }

  #forget(turnId: string): void {
    const logged = this.#turns.get(turnId)!;
    this.#turns.delete(turnId);
    const { conversationId } = logged.decision;
    if (this.#underWay.get(conversationId) === logged) this.#underWay.delete(conversationId);
  }
}

function pieceOf(span: Span, turnId: string, acceptedMs: number): PathPiece {
  const [piece] = stagePieces([span], { turnId });
  return {
    name: span.name,
    lane: laneName(span),
    group: piece ? STAGES[piece.key].group : 'other',
    startMs: Math.max(0, span.startMs - acceptedMs),
    endMs: span.endMs - acceptedMs,
    bytes: typeof span.args.bytes === 'number' ? span.args.bytes : null,
  };
}
