/** Tables that compare KV paths: speed, traffic, memory, and the best path by prompt length. */
import { PATH_MEANINGS } from '../../config/paths.ts';
import { formatInterval, formatMb, formatMs, plural } from '../../measure/format.ts';
import { outcomeOf, TIE } from '../../measure/outcome.ts';
import type { BenchMode } from '../../measure/schemas/bench-mode-schema.ts';
import type { Interval } from '../../measure/schemas/bench-paths-schema.ts';
import { type Experiment, labelIn, type Ratio } from '../../measure/schemas/bench-report.ts';
import { compared } from '../../measure/summaries/bench-paths.ts';
import { left, right, TONE_OF, type Tone, under } from '../../report/document.ts';
import { sum, sumOf } from '../../sum.ts';
import { packed, renderTable, type TableStyle } from '../output/table.ts';
import { ratio } from './tables.ts';

type Way = BenchMode & { path: NonNullable<BenchMode['path']> };

/** The compared KV paths; empty if modes or policies were compared. */
export const waysOf = ({ modes }: Pick<Experiment, 'modes'>): Way[] =>
  Object.values(modes).filter((mode): mode is Way => mode.path !== undefined);

/** Explains the paths in a report and the tables' figures. */
export const waysLegend = (experiments: readonly Experiment[]): string => {
  const names = new Set(experiments.flatMap((one) => waysOf(one).map(({ path }) => path.name)));
  const meanings = Object.entries(PATH_MEANINGS).filter(([name]) => names.has(name));
  return `Paths: ${meanings.map(([name, meaning]) => `${name}: ${meaning}`).join('; ')}. ${FIGURES}`;
};

const FIGURES =
  'TTFT is for turns 2 and later; "times faster" is relative to the first path. MB are per round, by reader and source; twice: bytes that took two hops in one turn where one would have sufficed. Pools have the same size for every path; blocks of finished requests that are kept for a reader occupy them (block·s: blocks times seconds, per round).';

/** null if unknown. */
const intervalOf = ({ ratio: value, low, high }: Ratio): Interval | null =>
  value === null ? null : { value, low, high };

function faster(than: Ratio): string {
  const found = intervalOf(than);
  return found ? formatInterval(found, short) : '-';
}

/** Three significant digits. */
const short = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);

/** For sentences. */
const timesFaster = (found: Interval): string => formatInterval(found, ratio, (n) => n.toFixed(2));

/** Narrow enough for three columns. */
const tight = (found: Interval): string =>
  formatInterval(found, short, (n) => n.toFixed(n < 100 ? 1 : 0)).replace(', ', ',');

export function waySpeedTable(experiment: Experiment, style: TableStyle): string[] {
  const later = 'times faster [95% interval]';
  const columns = [
    left('path'),
    ...under('TTFT, ms', 'median [95%]'),
    ...under(later, 'median', 'mean'),
    ...under('TPOT, ms', 'p50', 'p90'),
  ];
  const rows = waysOf(experiment).map((way) => {
    const pair = Object.values(experiment.comparisons).find(
      ({ candidate }) => experiment.modes[candidate] === way,
    );
    const than = pair?.ttft_later_turns_ms;
    const own = way.ttft_median_ms;
    return [
      way.label,
      own ? formatInterval(own, formatMs) : '-',
      than ? faster(than.p50) : '',
      than ? faster(than.mean) : '',
      formatMs(way.table.tpot_ms.p50),
      formatMs(way.table.tpot_ms.p90),
    ];
  });
  return renderTable(columns, rows, style);
}

export function wayBytesTable(experiment: Experiment, style: TableStyle): string[] {
  const columns = [
    left('MB per round'),
    ...under('between engines', 'P→D', 'D→P'),
    ...under('from the store', 'to P', 'to D'),
    ...under('to the store', 'from P', 'from D'),
    ...right('all', 'twice'),
  ];
  const rows = waysOf(experiment).map(({ label, path: { bytes } }) => {
    const { two_hops, ...edges } = bytes;
    const all = sum(Object.values(edges));
    const { p_to_d, d_to_p, store_to_p, store_to_d, p_to_store, d_to_store } = edges;
    const moved = [p_to_d, d_to_p, store_to_p, store_to_d, p_to_store, d_to_store, all, two_hops];
    return [label, ...moved.map(formatMb)];
  });
  return renderTable(columns, rows, style);
}

export function wayMemoryTable(experiment: Experiment, style: TableStyle): string[] {
  const columns = [
    left('memory'),
    ...under('pools, MB', 'P', 'D'),
    { head: 'MB', group: 'store' },
    ...under('held on D for P', 'mean', 'peak', 'block·s'),
    { head: 'block·s', group: 'on P for D' },
    { head: 'block·s', group: 'saving' },
    { head: 'dropped' },
  ];
  const rows = waysOf(experiment).map(({ label, path, held_for_p, holds_dropped }) => {
    const { memory, held_block_seconds: held } = path;
    return [
      label,
      formatMb(memory.p_pool_bytes),
      formatMb(memory.d_pool_bytes),
      formatMb(memory.store_bytes),
      held_for_p ? held_for_p.mean_blocks.toFixed(1) : '-',
      held_for_p ? String(held_for_p.peak_blocks) : '-',
      held.on_d_for_p.toFixed(1),
      held.on_p_for_d.toFixed(1),
      held.saving.toFixed(1),
      String((holds_dropped?.for_p ?? 0) + (holds_dropped?.for_d ?? 0)),
    ];
  });
  return renderTable(columns, rows, style);
}

/** Marks the best path of each length; if the runner-up is within its interval, marks both. */
export function lengthTable({ by_length = [], modes }: Experiment, style: TableStyle): string[] {
  if (by_length.length === 0) return [];
  const columns = [
    left('tokens'),
    ...by_length.flatMap(({ from_tokens, to_tokens }) =>
      packed(`${from_tokens} to ${to_tokens}`, 'ms', 'times faster'),
    ),
  ];
  const rows = Object.keys(by_length[0]!.ways).map((key) => [
    labelIn(modes, key),
    ...by_length.flatMap(({ ways, best, ahead_of, sure }) => {
      const { ttft_ms, times_faster } = ways[key]!;
      const marked = key === best || (!sure && key === ahead_of?.way);
      return [`${formatMs(ttft_ms.value)}${marked ? '*' : ' '}`, times_faster ? tight(times_faster) : ''];
    }),
  ]);
  return renderTable(columns, rows, style);
}

/** With fewer requests the regret mostly reflects other load on the machine. */
const TELLING_REQUESTS = 20;

/** What each path lost against the best path of each request. */
export function regretLine({ regret = {}, modes, by_length = [] }: Experiment): string | null {
  const parts = Object.entries(regret).map(
    ([key, { share }]) => `${labelIn(modes, key)} ${(100 * share).toFixed(0)}%`,
  );
  if (parts.length < 2) return null;
  const requestCount = sumOf(by_length, ({ requests }) => requests);
  const lost = `TTFT lost against the best path of each request, in hindsight: ${parts.join(', ')}`;
  return requestCount < TELLING_REQUESTS
    ? `${lost}. With only ${plural(requestCount, 'request')}, other load on the machine matters more.`
    : `${lost} (${plural(requestCount, 'request')}).`;
}

/** One sentence with the best path by length and its lead, then one for each path that loses to the first. */
export function wayVerdicts(experiment: Experiment): { text: string; tone: Tone }[] {
  const { title, modes, comparisons, by_length = [] } = experiment;
  const name = (key: string): string => labelIn(modes, key);
  const lengths = by_length.flatMap(({ from_tokens, to_tokens, best, ahead_of, sure }) => {
    if (!ahead_of) return [];
    const by = ahead_of.times_faster;
    const pair = `${name(best)} ${sure ? 'before' : 'and'} ${name(ahead_of.way)}, ${timesFaster(by)}`;
    return [
      `${from_tokens} to ${to_tokens} tokens: ${pair}${sure ? '' : ` (${by.low === null ? 'too few requests to tell' : TIE})`}`,
    ];
  });
  const wins = by_length.some(({ sure }) => sure);
  const losses = Object.values(comparisons).flatMap(
    ({ candidate, reference, ttft_later_turns_ms: later }) => {
      const found = later && intervalOf(later.p50);
      if (!found || outcomeOf(compared(found)) !== 'behind') return [];
      const text = `${title}: ${name(candidate)} loses to ${name(reference)}: median TTFT ${timesFaster(found)}.`;
      return [{ text, tone: TONE_OF.behind }];
    },
  );
  if (lengths.length === 0) return losses;
  return [{ text: `${title}: ${lengths.join('; ')}.`, tone: wins ? 'good' : 'plain' }, ...losses];
}
