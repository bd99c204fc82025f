/** What `kvferry sweep` prints: per series a table, both curves, the crossover, and the cost of thresholds. */

import { formatCount, formatFigures, formatInterval, formatMb, formatMs, plural } from '../measure/format.ts';
import {
  crossesAnywhere,
  crossingOf,
  mixedWinners,
  noWinner,
  type SweepPointReport,
  type SweepReport,
  type SweepSeriesReport,
  sureness,
} from '../measure/schemas/sweep-report.ts';
import { left, right } from '../report/document.ts';
import { THROTTLED } from '../report/throttled.ts';
import { adapterName, isStreamed, STREAMED } from '../report/verdict.ts';
import { fill, fillLeft, WIDTH, wrap } from './output/format.ts';
import { type Column, renderTable, type TableStyle } from './output/table.ts';

export function sweepLines(report: SweepReport, style: TableStyle): string[] {
  return [
    ...wrap(
      `The same turn served both ways: P pulls the KV of the given number of tokens from D, or recomputes it; then come ${plural(report.new_tokens, 'new token')}, the handover and the first token. TTFT in ms, medians of ${plural(report.rounds, 'round')} [quartiles]; alone: on one engine. ${report.model.name} on ${adapterName(report)}.`,
      WIDTH,
    ),
    ...(isStreamed(report) ? [STREAMED] : []),
    ...report.series.flatMap((series) => ['', ...seriesLines(series, report.rounds, style)]),
    ...(report.complete ? [] : ['', 'INCOMPLETE: interrupted; these are the results until then.']),
  ];
}

function seriesLines(series: SweepSeriesReport, rounds: number, style: TableStyle): string[] {
  if (series.points.length === 0) return [];
  const drawn = plot(series.points);
  return [
    style.bold(titleOf(series)),
    ...pointTable(series, rounds, style),
    ...(drawn.length > 0 ? drawn : ['']),
    ...wrap(crossoverSentence(series), WIDTH),
    ...thresholdLines(series, style),
  ];
}

function titleOf({ link, block_size, layout, local_hit_tokens }: SweepSeriesReport): string {
  return [
    link ? `link ${link.name}, ${THROTTLED}` : 'no modelled link',
    `blocks of ${block_size}, ${layout}`,
    ...(local_hit_tokens > 0 ? [`P's own cache has ${plural(local_hit_tokens, 'token')}`] : []),
  ].join('; ');
}

function pointTable({ points }: SweepSeriesReport, rounds: number, style: TableStyle): string[] {
  const has = (way: 'pull' | 'recompute' | 'monolithic') => points.some((point) => point[way] !== null);
  const both = has('pull') && has('recompute');
  const columns: Column[] = [
    { head: 'tokens' },
    ...(has('pull') ? [{ head: 'pull' }] : []),
    ...(has('recompute') ? [{ head: 'recompute' }] : []),
    ...(has('monolithic') ? [{ head: 'alone' }] : []),
    ...(both ? [{ head: 'pull won' }] : []),
    ...(has('pull') ? [...right('MB', 'MB/s', 'copies')] : []),
  ];
  const spread = (times: { median: number; p25: number; p75: number } | null): string =>
    times ? formatInterval({ value: times.median, low: times.p25, high: times.p75 }, formatMs) : '-';
  const rows = points.map((point) => [
    String(point.context_tokens),
    ...(has('pull') ? [spread(point.pull)] : []),
    ...(has('recompute') ? [spread(point.recompute)] : []),
    ...(has('monolithic') ? [formatMs(point.monolithic?.median ?? null)] : []),
    ...(both ? [`${point.rounds_won_by_pull ?? '-'}/${rounds}`] : []),
    ...(has('pull') ? movedCells(point) : []),
  ]);
  return renderTable(columns, rows, style);
}

function movedCells({ pull }: SweepPointReport): string[] {
  if (!pull) return ['-', '-', '-'];
  const rate = pull.gbps === null ? '-' : formatFigures(1000 * pull.gbps);
  return [formatMb(pull.bytes), rate, String(pull.descriptors)];
}

const PLOT_WIDTH = 60;

/** A plot with time to the right and tokens downwards. Both ways share a line, so that the crossover shows. */
function plot(points: readonly SweepPointReport[]): string[] {
  const drawn = points.filter(({ pull, recompute }) => pull && recompute);
  const times = drawn.flatMap(({ pull, recompute }) => [pull!.median, recompute!.median]);
  const [least, most] = [Math.min(...times), Math.max(...times)];
  if (drawn.length < 2 || !(most > least) || least <= 0) return [];
  const at = (ms: number): number =>
    Math.round((Math.log(ms / least) / Math.log(most / least)) * (PLOT_WIDTH - 1));
  const rows = drawn.map(({ context_tokens, pull, recompute }) => {
    const line = new Array<string>(PLOT_WIDTH).fill(' ');
    line[at(recompute!.median)] = 'r';
    line[at(pull!.median)] = line[at(pull!.median)] === 'r' ? '=' : 'p';
    return `${fillLeft(String(context_tokens), 6)} │${line.join('').trimEnd()}`;
  });
  const right = `${formatMs(most)} ms`;
  return [
    '',
    'tokens │p pull, r recompute, = both; TTFT, logarithmic',
    ...rows,
    `       └${'─'.repeat(PLOT_WIDTH)}`,
    `        ${fill(`${formatMs(least)} ms`, PLOT_WIDTH - right.length)}${right}`,
    '',
  ];
}

function crossoverSentence(series: SweepSeriesReport): string {
  const { crossover, points, link } = series;
  if (!crossover) return 'No crossover: that needs both bidirectional and unidirectional in --mode.';
  const tokens = points.map((point) => point.context_tokens);
  const [least, most] = [Math.min(...tokens), Math.max(...tokens)].map(formatCount);
  const label = link ? ` (${THROTTLED}: ${link.name})` : '';
  const without = (what: string): string =>
    `Pulling ${what} in the measured range, ${least} to ${most} tokens${label}: there is no crossover in it.`;
  if (noWinner(points)) return without('makes no difference');
  const crossing = crossingOf(series);
  if (!crossing)
    return without(
      mixedWinners(points) ?? (crossover.kind === 'pull_always_wins' ? 'always wins' : 'always loses'),
    );
  const at = plural(Math.round(crossing.tokens), 'token');
  const low = crossing.low === null ? `below ${least}` : formatCount(Math.round(crossing.low));
  const high = crossing.high === null ? `above ${most}` : formatCount(Math.round(crossing.high));
  if (crossesAnywhere(points, crossing))
    return `No sure crossover: the medians cross at ${at}, the rounds anywhere from ${low} to ${high}${label}. More --rounds narrow it.`;
  const sure = sureness(points, `95% interval: ${low} to ${high}`);
  return `Crossover at ${at} (${sure}): below it pulling loses, above it pulling wins${label}.`;
}

function thresholdLines({ thresholds, best_total_ms }: SweepSeriesReport, style: TableStyle): string[] {
  if (thresholds.length === 0 || best_total_ms === null) return [];
  const columns: Column[] = [left('kv_recompute_threshold'), ...right('sum of TTFT', 'lost', '%')];
  const percent = (ms: number): string => ((100 * ms) / best_total_ms).toFixed(1);
  const rows = [
    ...thresholds.map(({ threshold, total_ttft_ms, regret_ms }) => [
      nameOf(threshold),
      formatMs(total_ttft_ms),
      formatMs(regret_ms),
      percent(regret_ms),
    ]),
    ['better of both, each time', formatMs(best_total_ms), '-', '-'],
  ];
  return ['', ...renderTable(columns, rows, style)];
}

function nameOf(threshold: number | null): string {
  if (threshold === null) return 'never pull';
  if (threshold === 0) return '0 (always pull)';
  return threshold === 64 ? "64 (vLLM's default)" : String(threshold);
}

const CSV_COLUMNS = [
  'link',
  'throttled',
  'block_size',
  'layout',
  'local_hit_tokens',
  'context_tokens',
  'way',
  'round',
  'ttft_ms',
  'computed_tokens',
  'pulled_tokens',
  'bytes',
  'descriptors',
] as const;

/** One line a turn served. */
export function sweepCsv(report: SweepReport): string {
  const lines = report.series.flatMap((series) =>
    series.points.flatMap((point) =>
      (['pull', 'recompute', 'monolithic'] as const).flatMap((way) => {
        const times = point[way];
        const moved = way === 'pull' ? point.pull : null;
        return (times?.ttft_ms ?? []).map((ttft, round) => [
          series.link?.name ?? 'none',
          series.throttled,
          series.block_size,
          series.layout,
          series.local_hit_tokens,
          point.context_tokens,
          way,
          round + 1,
          ttft.toFixed(3),
          times!.computed_tokens,
          moved?.pulled_tokens ?? 0,
          moved?.bytes ?? 0,
          moved?.descriptors ?? 0,
        ]);
      }),
    ),
  );
  const quoted = (cell: unknown): string => (String(cell).includes(',') ? `"${String(cell)}"` : String(cell));
  return [CSV_COLUMNS.join(','), ...lines.map((cells) => cells.map(quoted).join(','))]
    .join('\n')
    .concat('\n');
}
