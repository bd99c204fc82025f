/** Tables that compare routing policies: speed, work and balance, significance. At most 80 columns. */

import { formatMs } from '../../measure/format.ts';
import { outcomeOf, TIE } from '../../measure/outcome.ts';
import type { BenchMode } from '../../measure/schemas/bench-mode-schema.ts';
import { type Experiment, labelIn } from '../../measure/schemas/bench-report.ts';
import { left, right } from '../../report/document.ts';
import { sum, sumOf } from '../../sum.ts';
import { packed, renderTable, type TableStyle } from '../output/table.ts';
import { ratio } from './tables.ts';

type Routed = BenchMode & { routing: NonNullable<BenchMode['routing']> };

/** The compared policies; empty if policies were not compared. */
export const routedModes = ({ modes }: Pick<Experiment, 'modes'>): Routed[] =>
  Object.values(modes).filter((mode): mode is Routed => mode.routing !== undefined);

/** Longer names, such as mixes of three, are cut. */
const LONGEST_NAME = 16;
const nameOf = ({ label }: BenchMode): string =>
  label.length <= LONGEST_NAME ? label : `${label.slice(0, LONGEST_NAME - 1)}…`;

export function speedTable(modes: readonly Routed[], style: TableStyle): string[] {
  const goodput = modes.some(({ routing }) => routing.goodput);
  const columns = [
    left(''),
    ...packed('TTFT, ms', 'mean', 'p50', 'p90', 'p99'),
    ...packed('TPOT, ms', 'p50', 'p90', 'p99'),
    ...right('requests/s', ...(goodput ? ['good/s', 'good'] : [])),
  ];
  const rows = modes.map((mode) => {
    const { ttft_ms: ttft, tpot_ms: tpot } = mode.table;
    const { goodput: good } = mode.routing;
    return [
      nameOf(mode),
      ...[ttft.mean, ttft.p50, ttft.p90, ttft.p99, tpot.p50, tpot.p90, tpot.p99].map((ms) => formatMs(ms)),
      mode.requests_per_second.toFixed(2),
      ...(good ? [good.requests_per_second.toFixed(2), `${Math.round(100 * good.share)}%`] : []),
    ];
  });
  return renderTable(columns, rows, style);
}

export function workTable(modes: readonly Routed[], style: TableStyle): string[] {
  const columns = [
    left(''),
    ...packed('prompt tokens', 'hit', 'pulled', 'computed'),
    ...packed('MB', 'P→D', 'D→P'),
    ...packed('P', 'peak', 'Jain'),
    ...packed('D', 'peak', 'Jain'),
    ...right('moved'),
  ];
  const mb = (bytes: number | null): string => (bytes === null ? '-' : (bytes / 1e6).toFixed(1));
  const balance = ({ max_over_mean: most, jain }: Routed['routing']['decode']): string[] => [
    most === null ? '-' : most.toFixed(2),
    jain === null ? '-' : jain.toFixed(2),
  ];
  const rows = modes.map((mode) => [
    nameOf(mode),
    String(mode.local_hit_tokens ?? '-'),
    String(mode.pulled_tokens ?? '-'),
    String(mode.computed_tokens ?? '-'),
    mb(mode.bytes_p_to_d),
    mb(mode.bytes_d_to_p),
    ...balance(mode.routing.prefill),
    ...balance(mode.routing.decode),
    String(mode.routing.moved_turns),
  ]);
  return renderTable(columns, rows, style);
}

export const WORK_LEGEND =
  "peak: the busiest engine's load divided by the mean (1: balanced), in tokens computed on P and generated on D. Jain: 1 balanced, 1/n all on one engine. moved: turns whose conversation was decoded on another engine before.";

/** Only the edges with the most traffic are shown. */
const MOST_EDGES = 8;

/** 'prefill-0' as 'P0', 'both-1.2' as 'B1.2'. */
const shortId = (engineId: string): string => {
  const [, kind, rest] = /^(prefill|decode|both)-(.+)$/.exec(engineId) ?? [];
  return kind === undefined ? engineId : `${kind[0]!.toUpperCase()}${rest}`;
};

/** MB that each policy moved, by source and destination. */
export function edgeTable(modes: readonly Routed[], style: TableStyle): string[] {
  const sums = new Map<string, { from: string; to: string; bytes: number }>();
  for (const { routing } of modes)
    for (const { from, to, bytes } of routing.edges) {
      const key = `${shortId(from)}→${shortId(to)}`;
      sums.set(key, { from, to, bytes: (sums.get(key)?.bytes ?? 0) + bytes });
    }
  const most = [...sums].toSorted(([, a], [, b]) => b.bytes - a.bytes).slice(0, MOST_EDGES);
  // P→D before D→P, each in engine order.
  const shown = most
    .map(([key]) => key)
    .toSorted((a, b) => Number(b[0] === 'P') - Number(a[0] === 'P') || (a < b ? -1 : 1));
  const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
  const rows = modes.map((mode) => {
    const { edges } = mode.routing;
    const perEdge = shown.map((key) =>
      sumOf(
        edges.filter(({ from, to }) => `${shortId(from)}→${shortId(to)}` === key),
        ({ bytes }) => bytes,
      ),
    );
    const all = sumOf(edges, ({ bytes }) => bytes);
    const others = all - sum(perEdge);
    return [nameOf(mode), ...perEdge.map(mb), ...(sums.size > MOST_EDGES ? [mb(others)] : [])];
  });
  const heads = sums.size > MOST_EDGES ? [...shown, 'others'] : shown;
  return renderTable([left('MB'), ...packedHeads(heads)], rows, style);
}

const packedHeads = (heads: readonly string[]) =>
  right(...heads).map((column) => ({ ...column, before: ' ' }));

/** What moving a conversation to another D costs; empty without data. */
export function movingLines({ moving }: Pick<Experiment, 'moving'>): string[] {
  if (!moving) return [];
  const { requests, stayed, moved, ttft_ratio: range } = moving;
  const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(2)} MB`;
  const took = `TTFT ${formatMs(moved.ttft_ms)} ms against ${formatMs(stayed.ttft_ms)} ms`;
  const outcome = range && outcomeOf({ ratio: range.ratio, low: range.low, high: range.high });
  const sure = !range
    ? ''
    : outcome === 'tie'
      ? `: ${TIE} (${ratio(range.ratio)}, between ${range.low.toFixed(2)} and ${range.high.toFixed(2)})`
      : `: ${ratio(range.ratio)}, between ${range.low.toFixed(2)} and ${range.high.toFixed(2)}`;
  return [
    `What moving costs: ${requests} later turns went to another D under one policy and stayed under another. ` +
      `Moved: ${took}${sure}; per turn ${mb(moved.bytes_p_to_d)} against ${mb(stayed.bytes_p_to_d)} from P to D, ` +
      `${mb(moved.bytes_d_to_p)} against ${mb(stayed.bytes_d_to_p)} back to P.`,
  ];
}

/** One sentence per policy against the first, judged by its interval. */
export function routingVerdicts({
  comparisons,
  modes,
}: Experiment): { text: string; outcome: 'ahead' | 'behind' | 'tie' }[] {
  return Object.entries(comparisons).flatMap(
    ([
      key,
      {
        reference,
        ttft_ms: { mean },
      },
    ]) => {
      const { low, high } = mean;
      if (mean.ratio === null) return [];
      const outcome = outcomeOf({ ratio: mean.ratio, low, high });
      const [name, other] = [labelIn(modes, key), labelIn(modes, reference)];
      const range = low === null || high === null ? '' : `, between ${low.toFixed(2)} and ${high.toFixed(2)}`;
      const reason = low === null ? 'too few requests to judge' : TIE;
      const said = {
        ahead: `is faster than ${other}`,
        behind: `is slower than ${other}`,
        tie: `and ${other}: ${reason}`,
      }[outcome];
      return [{ text: `${name} ${said}: mean TTFT ${ratio(mean.ratio)}${range}.`, outcome }];
    },
  );
}
