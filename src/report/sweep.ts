/** The document of a `kvferry sweep` report: for each link and layout, both curves, the crossover and the cost of rules. */
import {
  formatBytes,
  formatCount,
  formatFigures,
  formatGbps,
  formatMb,
  formatMs,
  formatParameters,
  plural,
} from '../measure/format.ts';
import { TIE } from '../measure/outcome.ts';
import {
  crossesAnywhere,
  crossingOf,
  mixedWinners,
  noWinner,
  type SweepReport,
  type SweepSeriesReport,
  seriesName,
  sureness,
} from '../measure/schemas/sweep-report.ts';
import {
  type CurvePiece,
  type DocumentParts,
  left,
  type Piece,
  right,
  type Section,
  type TablePiece,
  under,
} from './document.ts';
import { THROTTLED } from './throttled.ts';
import { adapterName, isStreamed, STREAMED } from './verdict.ts';

export function sweepParts(report: SweepReport): DocumentParts {
  const { series, model, rounds } = report;
  const links = [...new Set(series.flatMap(({ link }) => (link ? [link.name] : [])))];
  return {
    headline: headline(report),
    subtitle: `${model.name} on ${adapterName(report)}: ${plural(series[0]?.points.length ?? 0, 'context length')}, ${plural(rounds, 'round')}, pulling and recomputing in alternation.`,
    incomplete: report.complete ? null : 'interrupted',
    labels: [...links.map((name) => `${THROTTLED}: ${name}`), ...(isStreamed(report) ? [STREAMED] : [])],
    sections: series.map(seriesSection),
    facts: {
      kind: 'facts',
      title: 'Model',
      facts: [
        ['model', `${model.name}, ${formatParameters(model.parameters)} parameters`],
        ['KV per token', formatBytes(model.kv_bytes_per_token)],
        ['new user tokens, computed either way', formatCount(report.new_tokens)],
      ],
    },
  };
}

/** Such as 'Pulling wins from 85 tokens on'. */
function verdictOf(series: SweepSeriesReport): string {
  const { crossover, points } = series;
  if (!crossover) return 'Only one way was measured';
  if (noWinner(points)) return 'Pulling makes no difference at any measured length';
  const crossing = crossingOf(series);
  if (!crossing) {
    const mixed = mixedWinners(points);
    if (mixed !== null) return `Pulling ${mixed}`;
    const wins = crossover.kind === 'pull_always_wins';
    return `Pulling ${wins ? 'wins' : 'loses'} at every measured length`;
  }
  const { tokens, low, high } = crossing;
  if (crossesAnywhere(points, crossing))
    return `No sure crossover: the medians cross at ${formatCount(Math.round(tokens))} tokens, the rounds anywhere`;
  const interval = `95%: ${low === null ? 'below the shortest' : Math.round(low)} to ${high === null ? 'above the longest' : Math.round(high)}`;
  return `Pulling wins from ${formatCount(Math.round(tokens))} tokens on (${sureness(points, interval)})`;
}

function headline({ series }: SweepReport): string {
  const [first, ...others] = series;
  if (!first) return 'Nothing was measured';
  if (others.length === 0) return verdictOf(first);
  const verdicts = new Set(series.map(verdictOf));
  if (verdicts.size === 1) return verdictOf(first);
  const crossed = series.filter(crossingOf).length;
  return `Pull or recompute depends on the setting: the curves cross in ${crossed} of ${series.length} settings`;
}

function seriesSection(series: SweepSeriesReport): Section {
  const { link, throttled, best_total_ms, thresholds } = series;
  const rate = link
    ? ` ${formatFigures(link.bytes_per_second / 1e6)} MB/s, ${link.latency_ms} ms per chunk.`
    : '';
  const pieces: Piece[] = [curveOf(series), pointsTable(series)];
  if (best_total_ms !== null && thresholds.length > 0) pieces.push(thresholdTable(series));
  return {
    title: seriesName(series),
    intro: `${verdictOf(series)}.${throttled ? ` Throttled (modelled link):${rate}` : ''}`,
    pieces,
  };
}

const ruleName = (threshold: number | null): string => {
  if (threshold === null) return 'never pull';
  return threshold === 0 ? 'always pull' : `threshold ${threshold}`;
};

/** The rule whose regret is shaded: the most expensive of the requested ones; undefined if none has regret. */
function dearestRule({ thresholds }: SweepSeriesReport): number | null | undefined {
  const positive = thresholds.filter(({ threshold }) => threshold !== null && threshold > 0);
  const list = positive.length > 0 ? positive : thresholds;
  const worst = list.toSorted((a, b) => b.regret_ms - a.regret_ms)[0];
  return worst && worst.regret_ms > 0 ? worst.threshold : undefined;
}

function curveOf(series: SweepSeriesReport): CurvePiece {
  const { points } = series;
  const line = (name: 'pull' | 'recompute' | 'monolithic') => ({
    name,
    ...(name === 'monolithic' ? { dashed: true } : {}),
    points: points.flatMap((point) => {
      const times = point[name];
      return times ? [{ x: point.context_tokens, y: times.median, low: times.p25, high: times.p75 }] : [];
    }),
  });
  const lines = (['recompute', 'pull', 'monolithic'] as const)
    .map(line)
    .filter((one) => one.points.length > 0);
  const rule = dearestRule(series);
  const mark = crossingOf(series);
  return {
    kind: 'curve',
    title: 'Time to the first token, median of the rounds',
    x: { label: 'tokens that D holds and P lacks, logarithmic', log: true },
    y: { label: 'TTFT, ms' },
    series: lines,
    ...(mark
      ? {
          marks: [
            {
              x: mark.tokens,
              label: `crossover: ${Math.round(mark.tokens)}`,
              ...(mark.low !== null && mark.high !== null ? { low: mark.low, high: mark.high } : {}),
            },
          ],
        }
      : {}),
    ...(rule === undefined ? {} : { shade: regretOf(points, rule) }),
    note: 'Whiskers span the middle half of the rounds.',
  };
}

const STEPS = 24;

/** The area between the rule's choice and the better one, where the rule chooses worse. Interpolates linearly. */
function regretOf(
  points: SweepSeriesReport['points'],
  threshold: number | null,
): NonNullable<CurvePiece['shade']> {
  const both = points.flatMap(({ context_tokens: x, pull, recompute }) =>
    pull && recompute ? [{ x, pull: pull.median, recompute: recompute.median }] : [],
  );
  const dense = both.flatMap((point, i) => {
    const next = both[i + 1];
    if (!next) return [point];
    return Array.from({ length: STEPS }, (_, n) => {
      const share = n / STEPS;
      const between = (a: number, b: number): number => a + (b - a) * share;
      return {
        x: between(point.x, next.x),
        pull: between(point.pull, next.pull),
        recompute: between(point.recompute, next.recompute),
      };
    });
  });
  return {
    label: `regret of ${ruleName(threshold)}`,
    points: dense.map(({ x, pull, recompute }) => ({
      x,
      from: Math.min(pull, recompute),
      to: threshold !== null && x >= threshold ? pull : recompute,
    })),
  };
}

const pointsTable = ({ points }: SweepSeriesReport): TablePiece => ({
  kind: 'table',
  title: 'Results by length',
  columns: [
    { head: 'tokens' },
    ...under('TTFT, ms', 'pull', 'recompute'),
    { head: 'winner' },
    { head: 'rounds won', group: 'by pull' },
    ...under('pulled', 'MB', 'GB/s', 'copies'),
  ],
  rows: points.map(({ context_tokens, pull, recompute, winner, rounds_won_by_pull }) => [
    formatCount(context_tokens),
    { text: formatMs(pull?.median ?? null), strong: winner === 'pull' },
    { text: formatMs(recompute?.median ?? null), strong: winner === 'recompute' },
    winner === 'neither' ? TIE : (winner ?? ''),
    rounds_won_by_pull === null || !pull ? '' : `${rounds_won_by_pull} of ${pull.ttft_ms.length}`,
    pull ? formatMb(pull.bytes) : '-',
    formatGbps(pull?.gbps ?? null),
    pull ? formatCount(pull.descriptors) : '-',
  ]),
});

const thresholdTable = ({ thresholds, best_total_ms }: SweepSeriesReport): TablePiece => ({
  kind: 'table',
  title: 'Cost of rules, summed over the lengths',
  columns: [left('rule'), ...right('total, ms', 'regret, ms', 'above the best')],
  rows: [
    [{ text: 'the better of both, each time', strong: true }, formatMs(best_total_ms), '-', '-'],
    ...thresholds.map(({ threshold, total_ttft_ms, regret_ms }) => [
      ruleName(threshold),
      formatMs(total_ttft_ms),
      formatMs(regret_ms),
      `${((100 * regret_ms) / (best_total_ms || 1)).toFixed(1)}%`,
    ]),
  ],
});
