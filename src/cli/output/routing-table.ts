/** `--explain-routing`: each decision as a small table of candidates, with the choice, its reason and the outcome. */

import { formatMs } from '../../measure/format.ts';
import type { RoutingReport, RunReport, TurnReport } from '../../measure/schemas/report.ts';
import { storedTokens } from '../../measure/spans/stored-tokens.ts';
import { left, right } from '../../report/document.ts';
import { turnReport } from '../../router/turn-report.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import { WIDTH, wrap } from './format.ts';
import { renderTable, type TableStyle } from './table.ts';

/** Most candidates shown per side, best scores first. */
const MOST_CANDIDATES = 8;

export function routingLines(run: RunReport, style: TableStyle): string[] {
  return run.turns.flatMap((turn) => turnRoutingLines(turn, style));
}

/** Empty for a turn that was not routed. */
export function turnRoutingLines(turn: TurnReport, style: TableStyle): string[] {
  return turn.routing ? ['', ...decision(turn, turn.routing, style)] : [];
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
    ttft_ms,
    local_hit_tokens,
    pulled_tokens: pulled_tokens - stored_tokens,
    stored_tokens,
    computed_tokens,
  };
}

/** The report of a turn that was just served. */
export const turnOf = (result: TurnResult): TurnReport =>
  turnReport(result.conversationId, result.turn, result, [], null);

function decision(turn: TurnReport, routing: RoutingReport, style: TableStyle): string[] {
  const { policy, prefill, decode, load, why, predicted_ttft_ms: predicted } = routing;
  const who = prefill === null ? `${decode} alone` : `${prefill} to ${decode}`;
  const from = load === null ? '' : `, with what ${load} holds`;
  const stored = storedTokens(turn);
  const fromStore = stored === 0 ? '' : `, ${stored} loaded from the store`;
  const truth = [
    `TTFT ${formatMs(turn.ttft_ms)}${predicted === null ? '' : `, predicted ${formatMs(predicted)}`}`,
    `${turn.local_hit_tokens} tokens hit, ${turn.pulled_tokens - stored} pulled${fromStore}, ${turn.computed_tokens} computed`,
  ];
  const title = `${turn.conversation_id} turn ${turn.turn}: ${who}${from}. ${policy}: ${why}.`;
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
    ...wrap(`Outcome: ${truth.join('; ')}.`, WIDTH),
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
