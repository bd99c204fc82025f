/** `--explain-routing`: each decision as a small table of candidates, with the choice, its reason and the outcome. */

import { formatMs } from '../../measure/format.ts';
import type { RoutingReport, RunReport, TurnReport } from '../../measure/schemas/report.ts';
import { storedTokens } from '../../measure/spans/stored-tokens.ts';
import { left, right } from '../../report/document.ts';
import { routingReport, turnReport } from '../../router/turn-report.ts';
import type { FailedTurn, TurnResult } from '../../router/turn-types.ts';
import { WIDTH, wrap } from './format.ts';
import { renderTable, type TableStyle } from './table.ts';

/** Most candidates shown per side, best scores first. */
const MOST_CANDIDATES = 8;

export function routingLines(run: RunReport, style: TableStyle): string[] {
  return run.turns.flatMap((turn) => turnRoutingLines(turn, style));
}

/** Empty for a turn that was not routed. */
export function turnRoutingLines(turn: TurnReport, style: TableStyle): string[] {
  return turn.routing ? ['', ...decision(turn, turn.routing, outcomeOf(turn, turn.routing), style)] : [];
}

/** The same for a turn whose answer was not completed. */
export function failedTurnRoutingLines(failed: FailedTurn, style: TableStyle): string[] {
  const { conversationId: conversation_id, turn, routed, outcome, ttftMs } = failed;
  const ttft = ttftMs === null ? 'no token' : ttftOf(ttftMs, routed.predictedTtftMs);
  return ['', ...decision({ conversation_id, turn }, routingReport(routed), [outcome, ttft], style)];
}

/** The same as fields, for JSON logs. */
export function routingFields(report: TurnReport): object {
  const { conversation_id, turn, routing, ttft_ms, local_hit_tokens, pulled_tokens, computed_tokens } =
    report;
  const stored_tokens = storedTokens(report);
  return {
    conversation_id,
    turn,
    ...routing,
    outcome: 'completed',
    ttft_ms,
    local_hit_tokens,
    pulled_tokens: pulled_tokens - stored_tokens,
    stored_tokens,
    computed_tokens,
  };
}

/** A turn whose answer was not completed, as fields. */
export function failedTurnRoutingFields(failed: FailedTurn): object {
  const { conversationId: conversation_id, turn, routed, outcome, ttftMs: ttft_ms } = failed;
  return { conversation_id, turn, ...routingReport(routed), outcome, ttft_ms };
}

/** The report of a turn that was just served. */
export const turnOf = (result: TurnResult): TurnReport =>
  turnReport(result.conversationId, result.turn, result, [], null);

function outcomeOf(turn: TurnReport, { predicted_ttft_ms: predicted }: RoutingReport): string[] {
  const stored = storedTokens(turn);
  const fromStore = stored === 0 ? '' : `, ${stored} loaded from the store`;
  return [
    ttftOf(turn.ttft_ms, predicted),
    `${turn.local_hit_tokens} tokens hit, ${turn.pulled_tokens - stored} pulled${fromStore}, ${turn.computed_tokens} computed`,
  ];
}

const ttftOf = (ms: number, predicted: number | null): string =>
  `TTFT ${formatMs(ms)}${predicted === null ? '' : `, predicted ${formatMs(predicted)}`}`;

function decision(
  { conversation_id, turn }: Pick<TurnReport, 'conversation_id' | 'turn'>,
  routing: RoutingReport,
  outcome: readonly string[],
  style: TableStyle,
): string[] {
  const { policy, prefill, decode, load, why } = routing;
  const who = prefill === null ? `${decode} alone` : `${prefill} to ${decode}`;
  const from = load === null ? '' : `, with what ${load} holds`;
  const title = `${conversation_id} turn ${turn}: ${who}${from}. ${policy}: ${why}.`;
  return [
    ...wrap(title, WIDTH),
    ...renderTable(
      [
        left('for'),
        left('engine'),
        ...right('in flight', 'running', 'waiting', 'age, ms', 'cached', 'score'),
        left(''),
      ],
      (['prefill', 'decode'] as const).flatMap((side) => rows(side, routing)),
      style,
    ),
    ...wrap(`Outcome: ${outcome.join('; ')}.`, WIDTH),
  ];
}

function rows(side: 'prefill' | 'decode', { candidates, prefill, decode }: RoutingReport): string[][] {
  const all = candidates.filter((candidate) => candidate.side === side);
  const chosen = side === 'prefill' ? prefill : decode;
  const better = (a: (typeof all)[number], b: (typeof all)[number]): number =>
    Number(b.engine_id === chosen) - Number(a.engine_id === chosen) ||
    (a.best === 'most' ? -1 : 1) * ((a.score ?? 0) - (b.score ?? 0));
  const shown = all.length > MOST_CANDIDATES ? all.toSorted(better).slice(0, MOST_CANDIDATES) : all;
  const shownValue = (value: number | null): string => (value === null ? '' : String(value));
  const made = shown.map((candidate, i) => [
    i === 0 ? (side === 'prefill' ? 'P' : 'D') : '',
    candidate.engine_id,
    String(candidate.in_flight),
    shownValue(candidate.running),
    shownValue(candidate.waiting),
    candidate.age_ms === null ? '' : formatMs(candidate.age_ms),
    shownValue(candidate.cached_tokens),
    candidate.score === null ? '' : String(Number(candidate.score.toPrecision(4))),
    candidate.engine_id === chosen ? '<' : '',
  ]);
  const hidden = all.length - shown.length;
  return hidden > 0 ? [...made, ['', `and ${hidden} more`, '', '', '', '', '', '', '']] : made;
}
