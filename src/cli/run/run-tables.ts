/** A run's tables: the turns of each mode, and the modes side by side. At most 80 columns. */

import { readsFromPeers } from '../../config/kv-transfer.ts';
import { formatGbps, formatMb, formatMs, plural } from '../../measure/format.ts';
import type { Report, RunReport, TurnReport } from '../../measure/schemas/report.ts';
import { left, right } from '../../report/document.ts';
import { hasStore } from '../../report/verdict.ts';
import { type Column, packed, type Row, renderTable, type TableStyle } from '../output/table.ts';

/** Longer runs are cut; the JSON report has all turns. */
const MOST_TURNS = 40;

const MODE_SENTENCES: Record<RunReport['mode'], string> = {
  monolithic: 'one engine prefills and generates',
  unidirectional: 'P prefills, D generates; P recomputes what D generated',
  bidirectional: "P pulls D's KV back and prefills the rest, D generates",
  'decode-local': 'P prefills the first turn, D prefills all later turns itself',
};

/** Who did what in a mode. `config`: the run's settings. */
export function modeSentence({ mode, turns }: RunReport, config: Report['config']): string {
  if (mode === 'monolithic' || mode === 'decode-local') return MODE_SENTENCES[mode];
  if (turns.length > 0 && turns.every(({ routing }) => routing?.way === 'alone'))
    return 'each turn is served by one engine that does both';
  if (!readsFromPeers(config)) return 'P prefills, D generates; KV moves through the store only';
  return MODE_SENTENCES[mode];
}

/** Explains the tables to first-time readers. */
export const legend = (stores: boolean): readonly string[] => [
  'P prefills prompts, D generates; each has its own device and KV cache.',
  `prompt = hit (KV in P's own cache) + pulled (${stores ? 'from D or the store' : 'copied from D'}) + computed.`,
  `TTFT: ms to the first token. TPOT: ms per token after it. KV moved: MB${stores ? '' : ', GB/s'}.`,
];

const ACCOUNT: readonly Column[] = [
  ...right('turn', 'prompt'),
  { head: 'hit', before: ' = ' },
  { head: 'pulled', before: ' + ' },
  { head: 'computed', before: ' + ' },
  ...right('TTFT', 'TPOT'),
];

const moved = (group: string): readonly Column[] => [
  { head: 'MB', group },
  { head: 'GB/s', before: ' ', group },
];

/** With several conversations, 2.3 is turn 3 of the second. */
export function turnTable(run: RunReport, style: TableStyle): string[] {
  const conversations = [...new Set(run.turns.map(({ conversation_id }) => conversation_id))];
  const sends = run.mode !== 'monolithic';
  const pulls = run.mode === 'bidirectional';
  // With a store there is no room for rates; they are in the JSON report.
  const stores = hasStore([run]);
  const columns = stores
    ? [...ACCOUNT, ...packed('MB moved', 'P→D', 'D→P', 'store→P', 'store→D')]
    : [...ACCOUNT, ...(sends ? moved('P→D') : []), ...(pulls ? moved('D→P') : [])];
  const shown = run.turns.slice(0, MOST_TURNS);
  const rows = shown.flatMap((turn): Row[] => {
    const number = conversations.indexOf(turn.conversation_id) + 1;
    const { p_to_d, d_to_p, store_to_p, store_to_d } = turn.transfer;
    const rates = [
      ...(sends ? [formatMb(p_to_d.bytes), formatGbps(p_to_d.gbps)] : []),
      ...(pulls ? [formatMb(d_to_p.bytes), formatGbps(d_to_p.gbps)] : []),
    ];
    const bytes = [p_to_d, d_to_p, store_to_p, store_to_d].map((one) => formatMb(one?.bytes ?? 0));
    const row = [
      conversations.length === 1 ? String(turn.turn) : `${number}.${turn.turn}`,
      ...[turn.prompt_tokens, turn.local_hit_tokens, turn.pulled_tokens, turn.computed_tokens].map(String),
      formatMs(turn.ttft_ms),
      formatMs(turn.tpot_ms),
      ...(stores ? bytes : rates),
    ];
    const remarks: Row[] = [];
    if (pulls && turn.pulled_tokens === 0) remarks.push({ remark: `pulled nothing: ${whyNothing(turn)}` });
    if (turn.audit)
      remarks.push({ remark: `audited: the other way took ${formatMs(turn.audit.other_ttft_ms)} ms` });
    return [row, ...remarks];
  });
  const left = run.turns.length - shown.length;
  if (left > 0) rows.push({ remark: `${plural(left, 'more turn')}: see --json` });
  return renderTable(columns, rows, style);
}

function whyNothing(turn: TurnReport): string {
  if (turn.no_pull_reason !== null) return turn.no_pull_reason;
  if (turn.turn === 1) return 'D holds nothing before the first turn';
  if (turn.routing?.way === 'alone') return 'one engine served this turn alone';
  // The last turn's engine served it alone or ended, its hold expired, or the routing policy has P compute.
  if (turn.routing?.load === null) return 'P was offered no KV of the turn before';
  return 'D offered nothing beyond what P had';
}

export function summaryTable(runs: readonly RunReport[], style: TableStyle): string[] {
  const stores = hasStore(runs);
  const columns: Column[] = [
    left('mode'),
    ...(stores ? [{ head: 'turn 1', group: 'TTFT' }] : packed('TTFT turn 1', 'mean', 'p50')),
    ...(stores ? [{ head: 'later', group: 'TTFT', before: ' ' }] : packed('TTFT turns 2+', 'mean', 'p50')),
    { head: 'TPOT' },
    ...packed('prompt tokens', 'pulled', 'computed'),
    ...packed('MB moved', 'P→D', 'D→P', ...(stores ? ['store→', '→store'] : [])),
  ];
  const rows = runs.map(({ mode, summary }) => [
    mode,
    formatMs(summary.ttft_first_turn_ms?.mean ?? null),
    ...(stores ? [] : [formatMs(summary.ttft_first_turn_ms?.p50 ?? null)]),
    formatMs(summary.ttft_later_turns_ms?.mean ?? null),
    ...(stores ? [] : [formatMs(summary.ttft_later_turns_ms?.p50 ?? null)]),
    formatMs(summary.tpot_ms?.mean ?? null),
    String(summary.pulled_tokens),
    String(summary.computed_tokens),
    formatMb(summary.bytes_p_to_d),
    formatMb(summary.bytes_d_to_p),
    ...(stores ? [formatMb(summary.bytes_from_store ?? 0), formatMb(summary.bytes_to_store ?? 0)] : []),
  ]);
  return renderTable(columns, rows, style);
}
