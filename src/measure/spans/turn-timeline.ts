/**
 * The spans of one turn in a report: the turn that pulled or loaded the most (or the last one), until shortly after its
 * first token.
 */
import { z } from 'zod';
import { laneName, SERVED_AGAIN, type Span } from './spans.ts';
import { STAGES, stagePieces } from './stages.ts';
import { turnKey } from './turn-key.ts';

export const timelineSchema = z.strictObject({
  mode: z.string(),
  conversation_id: z.string(),
  turn: z.number().int().positive(),
  pulled_tokens: z
    .number()
    .int()
    .nonnegative()
    .optional()
    .describe('Tokens pulled from D or loaded from a store; absent in reports of earlier versions.'),
  ttft_ms: z.number().nonnegative(),
  spans: z
    .array(
      z.strictObject({
        name: z.string().describe('One of SPAN_NAMES in src/measure/spans/spans.ts.'),
        lane: z.string().describe('Where.'),
        group: z.string().describe('Group of its stage.'),
        start_ms: z.number().describe('Since the router accepted the turn.'),
        end_ms: z.number(),
        clock: z.enum(['host', 'gpu', 'modelled']),
        bytes: z.number().nullable().describe('For stages of a transfer; null for other spans.'),
      }),
    )
    .describe('Spans in the order in which they began.'),
  left_out: z.number().int().nonnegative().describe('Number of omitted spans, the shortest ones.'),
});

export type TurnTimeline = z.infer<typeof timelineSchema>;

/** Spans that only enclose others. */
const ENVELOPES = new Set(['step', 'transfer', 'ttft', 'turn']);
/** A modelled READ has no stages. */
const isEnvelope = ({ name, clock }: Span): boolean =>
  ENVELOPES.has(name) && !(name === 'transfer' && clock === 'modelled');
const MOST_SPANS = 600;
/** Most turns followed at once; beyond this the oldest are dropped. */
const MOST_TURNS = 1024;
/** How far the timeline continues after the first token, as a share of the time until then. */
const AFTER = 0.12;

interface EndedTurn {
  conversation_id: string;
  turn: number;
  pulled_tokens: number;
}

interface Ended {
  turnId: string;
  spans: readonly Span[];
  ttft: Span;
}

/** Follows a cluster's spans and keeps those of one turn. */
export class TimelineKeeper {
  readonly #underWay = new Map<string, Span[]>();
  readonly #ended = new Map<string, Ended>();
  #best: { pulled: number; timeline: TurnTimeline } | null = null;

  add(span: Span): void {
    for (const turnId of new Set(span.turns.map((turn) => turn.turnId))) {
      const spans = this.#underWay.get(turnId) ?? [];
      if (span.name === 'ttft') {
        const { conversationId, turn } = span.args;
        const key = turnKey({ conversation_id: String(conversationId), turn: Number(turn) });
        // What an audit serves again comes before turnEnded(), and is not what the report's figures are of.
        if (span.args.served !== SERVED_AGAIN.served) this.#ended.set(key, { turnId, spans, ttft: span });
        this.#underWay.delete(turnId);
        forgetOldest(this.#ended);
      } else {
        this.#underWay.set(turnId, spans);
        spans.push(span);
        forgetOldest(this.#underWay);
      }
    }
  }

  /** Call when a turn has ended. Of turns that pulled equally much, the last is kept. */
  turnEnded(mode: string, turn: EndedTurn): void {
    const key = turnKey(turn);
    const ended = this.#ended.get(key);
    this.#ended.delete(key);
    if (!ended || ended.spans.length === 0 || turn.pulled_tokens < (this.#best?.pulled ?? 0)) return;
    this.#best = { pulled: turn.pulled_tokens, timeline: timelineOf(mode, turn, ended) };
  }

  /** null if no turn's spans were seen. */
  get timeline(): TurnTimeline | null {
    return this.#best?.timeline ?? null;
  }
}

function forgetOldest(map: Map<string, unknown>): void {
  if (map.size > MOST_TURNS) map.delete(map.keys().next().value!);
}

function timelineOf(
  mode: string,
  { conversation_id, turn, pulled_tokens }: EndedTurn,
  { turnId, spans, ttft }: Ended,
): TurnTimeline {
  const ttft_ms = ttft.endMs - ttft.startMs;
  const end = ttft.endMs + AFTER * ttft_ms;
  const overlapping = spans.filter(
    (span) => !isEnvelope(span) && span.startMs < end && span.endMs > ttft.startMs,
  );
  const longest = new Set(overlapping.toSorted((a, b) => lengthOf(b) - lengthOf(a)).slice(0, MOST_SPANS));
  return {
    mode,
    conversation_id,
    turn,
    pulled_tokens,
    ttft_ms,
    spans: overlapping
      .filter((span) => longest.has(span))
      .toSorted((a, b) => a.startMs - b.startMs)
      .map((span) => ({
        name: span.name,
        lane: laneName(span),
        group: groupOf(span, turnId),
        start_ms: Math.max(0, span.startMs - ttft.startMs),
        end_ms: Math.min(end, span.endMs) - ttft.startMs,
        clock: span.clock,
        bytes: typeof span.args.bytes === 'number' ? span.args.bytes : null,
      })),
    left_out: overlapping.length - longest.size,
  };
}

const lengthOf = ({ startMs, endMs }: Span): number => endMs - startMs;

/** Kernels on the device's clock belong to the same group as the engine's forward pass. */
function groupOf(span: Span, turnId: string): string {
  const named: Span = span.clock === 'gpu' ? { ...span, clock: 'host', name: 'forward' } : span;
  const [piece] = stagePieces([named], { turnId });
  return piece ? STAGES[piece.key].group : 'other';
}
