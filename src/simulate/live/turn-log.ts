/** The last turns of a watched fleet: how each was routed, and what happened to it on the engines. */
import { STORE_ADDRESS } from '../../config/connectors.ts';
import type { BlockFact } from '../../engine/inspect/block-facts.ts';
import { laneName, type Span, type Way } from '../../measure/spans/spans.ts';
import { STAGES, stagePieces } from '../../measure/spans/stages.ts';
import type { TurnNotice } from '../../router/router.ts';
import type { RequestNotice } from '../../router/turn-attempts.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import type { LiveBlock, LiveDecision, PathPiece, TurnPath } from './view.ts';

const MOST_TURNS = 400;
const MOST_SPANS = 300;
/** Decisions in each look. */
const SHOWN = 12;
/** Spans that only enclose others. A transfer is not among them: a simulated one has no other span. */
const AROUND = new Set(['step', 'ttft', 'turn']);

interface Logged {
  decision: LiveDecision;
  acceptedMs: number;
  latencyMs: number | null;
  spans: Span[];
  requestIds: string[];
  /** Where requests read KV from, by request id. */
  sources: Map<string, NonNullable<LiveBlock['from']>>;
  /** Where each turn of its conversation up to this one ends, in tokens; infinite for the last one until it has ended. */
  ends: number[];
}

export class TurnLog {
  readonly #originMs: number;
  /** Turns by id, oldest first. */
  readonly #turns = new Map<string, Logged>();
  /** Turns under way, by conversation. */
  readonly #underWay = new Map<string, Logged>();
  /** Each conversation's last turn. */
  readonly #lastOf = new Map<string, Logged>();
  readonly #ofRequest = new Map<string, Logged>();

  /** `originMs`: time of the clock that is 0 for the viewer. */
  constructor(originMs = 0) {
    this.#originMs = originMs;
  }

  begins({ turnId, conversationId, turn, promptTokenIds, atMs, routed: routing }: TurnNotice): void {
    if (!routing) return;
    const [startMs, endMs] = [routing.startMs - this.#originMs, routing.endMs - this.#originMs];
    const routed = { ...routing, startMs, endMs };
    const promptTokens = promptTokenIds.length;
    const decision = { turnId, conversationId, turn, promptTokens, routed, ttftMs: null };
    const before = this.#lastOf.get(conversationId)?.ends ?? [];
    const ends = [...before, Number.POSITIVE_INFINITY];
    const nothing = { latencyMs: null, spans: [], requestIds: [], sources: new Map() };
    const logged: Logged = { decision, acceptedMs: atMs, ...nothing, ends };
    this.#turns.set(turnId, logged);
    this.#underWay.set(conversationId, logged);
    this.#lastOf.set(conversationId, logged);
    if (this.#turns.size <= MOST_TURNS) return;
    const [oldest] = this.#turns.keys();
    this.#forget(oldest!);
  }

  /** Records a request, if its turn is remembered. */
  requestStarts({ requestId, turnId }: RequestNotice): void {
    const logged = this.#turns.get(turnId);
    if (!logged) return;
    logged.requestIds.push(requestId);
    this.#ofRequest.set(requestId, logged);
  }

  ends({ conversationId, ttftMs, latencyMs, promptTokenIds, outputTokenIds }: TurnResult): void {
    const logged = this.#underWay.get(conversationId);
    if (!logged) return;
    logged.ends[logged.ends.length - 1] = promptTokenIds.length + outputTokenIds.length;
    this.#underWay.delete(conversationId);
    logged.latencyMs = latencyMs;
    logged.decision = { ...logged.decision, ttftMs };
  }

  saw(span: Span): void {
    for (const { turnId } of span.turns) {
      const logged = this.#turns.get(turnId);
      if (!logged) continue;
      if (span.name === 'transfer' && span.requestId !== null && span.way)
        reads(logged, span.requestId, span.way);
      if (logged.spans.length < MOST_SPANS && logged.spans.at(-1) !== span) logged.spans.push(span);
    }
  }

  get last(): readonly LiveDecision[] {
    return [...this.#turns.values()].slice(-SHOWN).map(({ decision }) => decision);
  }

  /** Adds to each block which turn's tokens it holds, and where it was read from. */
  blocks(facts: readonly BlockFact[], blockSize: number): LiveBlock[] {
    return facts.map((fact) => {
      const logged = this.#ofRequest.get(fact.requestId);
      const turn = logged ? logged.ends.findIndex((end) => end > fact.index * blockSize) + 1 : 0;
      const { hold } = fact;
      return {
        ...fact,
        hold: hold && { ...hold, deadlineMs: hold.deadlineMs - this.#originMs },
        conversationId: logged?.decision.conversationId ?? null,
        turn: turn > 0 ? turn : null,
        from: (fact.origin === 'pulled' && logged?.sources.get(fact.requestId)) || null,
      };
    });
  }

  /** null: the turn is not remembered. */
  path(turnId: string): TurnPath | null {
    const logged = this.#turns.get(turnId);
    if (!logged) return null;
    const { decision, latencyMs } = logged;
    const pieces = [...piecesOf(logged)].sort((a, b) => a.startMs - b.startMs);
    return { decision, latencyMs, pieces };
  }

  #forget(turnId: string): void {
    const logged = this.#turns.get(turnId)!;
    this.#turns.delete(turnId);
    const { conversationId } = logged.decision;
    for (const requestId of logged.requestIds) this.#ofRequest.delete(requestId);
    for (const last of [this.#underWay, this.#lastOf])
      if (last.get(conversationId) === logged) last.delete(conversationId);
  }
}

function reads({ sources }: Logged, requestId: string, { from }: Way): void {
  const source = from === STORE_ADDRESS.engineId ? 'store' : 'engine';
  sources.set(requestId, (sources.get(requestId) ?? source) === source ? source : 'either');
}

/** Steps after the first token are one piece: simulated ones that are computed together report nothing. */
function* piecesOf({ decision, acceptedMs, latencyMs, spans }: Logged): Generator<PathPiece> {
  const { turnId, ttftMs, routed } = decision;
  const decodes = `${routed.decode} `;
  const answered = ttftMs !== null && latencyMs !== null;
  for (const span of spans) {
    const lasts = span.name === 'route' || span.endMs > span.startMs;
    if (AROUND.has(span.name) || !lasts) continue;
    const piece = pieceOf(span, turnId, acceptedMs);
    if (!answered || !piece.lane.startsWith(decodes) || piece.startMs < ttftMs) yield piece;
  }
  if (answered)
    yield {
      ...{ name: 'decode', lane: `${decodes}host`, group: 'decode' },
      ...{ startMs: ttftMs, endMs: latencyMs, bytes: null },
    };
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
