/** A benchmark's tables, lines of at most 80 columns. */

import { formatInterval, formatMs, plural } from '../../measure/format.ts';
import { BENCH_METRICS, type BenchMode, type Described } from '../../measure/schemas/bench-mode-schema.ts';
import { type Experiment, labelIn, type Ratio } from '../../measure/schemas/bench-report.ts';
import { ENOUGH_FOR_P99 } from '../../measure/statistics.ts';
import { left, under } from '../../report/document.ts';
import { storeBytes } from '../../report/verdict.ts';
import { type Column, packed, renderTable, type TableStyle } from '../output/table.ts';

/** vLLM's own table: one row per metric, with the columns of describe(). */
export function vllmTable(table: BenchMode['table'], style: TableStyle): string[] {
  const columns: Column[] = [
    { head: '', align: 'left' },
    ...['count', 'mean', 'std', 'min', '25%', '50%', '75%', '90%', '99%', 'max'].map((head) => ({ head })),
  ];
  const rows = BENCH_METRICS.map((metric) => [metric, ...cells(table[metric])]);
  return renderTable(columns, rows, style);
}

function cells({ count, mean, std, min, p25, p50, p75, p90, p99, max }: Described): string[] {
  return [String(count), ...[mean, std, min, p25, p50, p75, p90, p99, max].map(short)];
}

/** At most five characters: 0, 9.35, 12.4, 1050, 20k. */
function short(value: number | null): string {
  if (value === null) return '-';
  if (value === 0) return '0';
  if (value >= 100_000) return `${Math.round(value / 1000)}k`;
  return formatMs(value);
}

/** Each mode against the reference: TTFT ratios with intervals, and TPOT ratios. */
export function ratioTable({ comparisons, modes }: Experiment, style: TableStyle): string[] {
  const columns: Column[] = [
    left(''),
    ...under('TTFT, times faster [95% interval]', 'mean', 'p50'),
    { head: 'p90', before: '  ', group: 'TTFT, times faster [95% interval]' },
    { head: 'TPOT' },
  ];
  const rows = Object.entries(comparisons).map(([key, pair]) => [
    shortLabel(labelIn(modes, key)),
    ...(['mean', 'p50', 'p90'] as const).map((name) => interval(pair.ttft_ms[name])),
    ratio(pair.tpot_ms.mean.ratio),
  ]);
  return renderTable(columns, rows, style);
}

export const ratio = (value: number | null): string => (value === null ? '-' : `${value.toFixed(2)}x`);

/** Longer names, such as policy mixes, are cut. */
const LONGEST_LABEL = 18;

/** Shortens the label of a variant of the mode above it. */
const shortLabel = (label: string): string => {
  const short = label.replace(/^[a-z-]+, (?=threshold|all KV)/, '- ');
  return short.length <= LONGEST_LABEL ? short : `${short.slice(0, LONGEST_LABEL - 1)}…`;
};

const interval = ({ ratio: value, low, high }: Ratio): string =>
  value === null ? '-' : formatInterval({ value, low, high }, (n) => n.toFixed(2));

/** Work and cost of each mode: tokens, decode rate, gaps between tokens, memory held for P. */
export function costTable(modes: Experiment['modes'], style: TableStyle): string[] {
  // A server does not tell hits in its engines' own caches from pulled tokens.
  const server = Object.values(modes).some(({ cached_tokens }) => cached_tokens !== undefined);
  const columns: Column[] = [
    left(''),
    ...packed('prompt tokens', ...(server ? ['cached'] : ['hit', 'pulled']), 'computed'),
    { head: 'tok/s', group: 'D' },
    ...packed('ms between tokens', 'p50', 'p99', 'max'),
    ...packed('blocks held', 'mean', 'peak'),
    { head: 'MB·s', group: 'for P' },
  ];
  const rows = Object.values(modes).map((mode) => [
    shortLabel(mode.label),
    ...(server
      ? [count(mode.cached_tokens ?? null)]
      : [count(mode.local_hit_tokens), count(mode.pulled_tokens)]),
    count(mode.computed_tokens),
    mode.output_tokens_per_second.toFixed(1),
    formatMs(mode.itl_ms?.p50 ?? null),
    formatMs(mode.itl_ms?.p99 ?? null),
    formatMs(mode.itl_ms?.max ?? null),
    mode.held_for_p ? mode.held_for_p.mean_blocks.toFixed(1) : '-',
    count(mode.held_for_p?.peak_blocks ?? null),
    mode.held_for_p ? (mode.held_for_p.byte_seconds / 1e6).toFixed(1) : '-',
  ]);
  return renderTable(columns, rows, style);
}

/** What each mode moved to and from the store, one sentence each; empty without a store. */
export const storeUses = (modes: Experiment['modes']): string[] =>
  Object.values(modes)
    .filter(({ bytes_from_store }) => bytes_from_store !== undefined)
    .map((mode) => `${storeBytes(mode.label, mode)}.`);

/** Why P did not pull what D offered, one sentence per mode; empty if everything was pulled. */
export function notPulled(modes: Experiment['modes']): string[] {
  return Object.values(modes).flatMap(({ label, mode, holds_dropped, not_pulled = {}, pulled_tokens }) => {
    const dropped = holds_dropped?.for_p ?? 0;
    const lost = not_pulled.transfer ?? 0;
    if (mode !== 'bidirectional' || (dropped + lost === 0 && pulled_tokens !== 0)) return [];
    const reasons = Object.entries(not_pulled).filter(([, prompts]) => prompts > 0);
    const parts = [
      ...(dropped > 0
        ? [`D dropped ${plural(dropped, 'hold')} for lack of blocks, and P recomputed (--d-blocks)`]
        : []),
      ...(reasons.length > 0
        ? [`prompts that pulled nothing: ${reasons.map(([by, prompts]) => `${prompts} by ${by}`).join(', ')}`]
        : []),
    ];
    return parts.length > 0 ? [`${shortLabel(label)}: ${parts.join('; ')}.`] : [];
  });
}

const count = (value: number | null): string => (value === null ? '-' : String(value));

/** Our figures next to the published ones. */
export function publishedTable(
  published: NonNullable<Experiment['published']>,
  comparison: NonNullable<Experiment['comparison']>,
  style: TableStyle,
): string[] {
  const columns: Column[] = [
    left('TTFT, ms'),
    ...under('published', 'without', 'pulling', 'ratio'),
    ...under('here', 'without', 'pulling', 'ratio'),
  ];
  const rows = Object.entries(published.ttft_ms).map(([name, theirs]) => {
    const ours = comparison.ttft_ms[name as keyof typeof comparison.ttft_ms];
    const few = name === 'p99' && comparison.requests < ENOUGH_FOR_P99;
    return [
      name,
      formatMs(theirs.reference),
      formatMs(theirs.candidate),
      ratio(theirs.ratio),
      ...(few ? ['-', '-', '-'] : [formatMs(ours.reference), formatMs(ours.candidate), ratio(ours.ratio)]),
    ];
  });
  return renderTable(columns, rows, style);
}
