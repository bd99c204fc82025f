/** The document of a `kvferry bench` report: each experiment with its tables, charts and the cost of reuse. */

import { formatCount, formatMb, formatMs, formatSeconds, plural } from '../measure/format.ts';
import { outcomeOf, TIE } from '../measure/outcome.ts';
import { BENCH_METRICS, type BenchMode } from '../measure/schemas/bench-mode-schema.ts';
import {
  type BenchComparison,
  type BenchReport,
  COMPARED_STATISTICS,
  type Experiment,
  labelIn,
} from '../measure/schemas/bench-report.ts';
import { groupStages } from '../measure/spans/stages.ts';
import { ENOUGH_FOR_P99 } from '../measure/statistics.ts';
import { againstFigures, againstHeadline, againstTables, comparesEqually } from './against.ts';
import { auditTable, benchAuditSentence } from './audit.ts';
import {
  type Cell,
  type DocumentParts,
  type FiguresPiece,
  left,
  type Piece,
  right,
  type Section,
  type TablePiece,
  under,
} from './document.ts';
import { wayTables } from './paths.ts';
import { interval, ratioFigure, times, toneOf } from './ratio.ts';
import { pullingWaterfall, STAGE_PARTS } from './stage-parts.ts';
import { throttledLabel } from './throttled.ts';
import { adapterName, isStreamed, keptKvNote, STREAMED, windowSavings } from './verdict.ts';

export function benchParts(report: BenchReport): DocumentParts {
  const { target, workload, plan } = report;
  const where = target.kind === 'cluster' ? adapterName(report) : (target.url ?? 'a server');
  const recorder = report.recorder_overhead_percent;
  const kept = keptKvNote(report);
  const throttled = throttledLabel({ link: target.link, config: report.config });
  return {
    headline: headline(report),
    subtitle: `${target.model} on ${where}: ${plural(workload.conversations, 'conversation')}, ${plural(workload.requests, 'request')} per round and mode, ${workload.num_clients === 0 ? "sent at the trace's times" : plural(workload.num_clients, 'client')}, ${roundsServed(plan, report.modes)}.`,
    incomplete: report.complete ? null : (report.incomplete_reason ?? 'interrupted'),
    labels: [
      ...(throttled ? [throttled] : []),
      ...(isStreamed(report) ? [STREAMED] : []),
      ...(workload.scale === '1' ? [] : [`every length scaled by ${workload.scale}`]),
    ],
    sections: Object.values(report.experiments).map((each) => experimentSection(each, report, kept)),
    facts: {
      kind: 'facts',
      title: 'Workload',
      facts: [
        ['source', workload.source],
        ['seed', String(workload.seed)],
        ['most active conversations', formatCount(workload.max_active_conversations)],
        ['prompt tokens, histories included', formatCount(workload.prompt_tokens)],
        ['output tokens', formatCount(workload.output_tokens)],
        ...Object.entries(workload.generation),
        ['time spent', formatSeconds(plan.spent_ms)],
        ...(recorder === null
          ? []
          : [['cost of recording spans', `${recorder.toFixed(2)}% of the run`] as const]),
        ...plan.notes.map((note) => ['note', note] as const),
      ],
    },
  };
}

function headline(report: BenchReport): string {
  const { comparison, modes, experiments } = report;
  if (!comparison) {
    const measured = Object.keys(modes).length;
    if (measured === 0) return 'Nothing was measured';
    return measured === 1 ? 'One mode was measured' : 'No request was answered by two modes';
  }
  if (!comparison.tokens_identical) return 'The modes disagree: the figures below are not valid';
  if (keptKvNote(report)) return 'The modes were measured, and are not compared';
  const { reference, candidate } = namesIn(comparison, modes);
  const { ratio, low, high } = comparison.ttft_ms.mean;
  // The report's comparison is the first experiment's.
  const [first] = Object.values(experiments);
  if (first && comparesEqually(first)) return againstHeadline(first);
  if (ratio === null) return `${candidate} compared with ${reference}`;
  const pulling = modes[comparison.candidate];
  if (
    pulling?.mode === 'bidirectional' &&
    pulling.pulled_tokens === 0 &&
    comparison.reference === 'unidirectional'
  )
    return 'Nothing was pulled: both modes did the same work';
  if (low === null || high === null)
    return `${candidate}: mean TTFT ${ratio.toFixed(2)}x, too few requests to judge`;
  return {
    ahead: `${candidate}: mean time to the first token ${ratio.toFixed(2)}x shorter`,
    behind: `${candidate} is slower here: mean time to the first token ${(1 / ratio).toFixed(2)}x longer`,
    tie: `${candidate} makes ${TIE} to ${reference}: mean TTFT ${ratio.toFixed(2)}x`,
  }[outcomeOf({ ratio, low, high })];
}

/** The names of the two compared modes. */
const namesIn = (
  { reference, candidate }: BenchComparison,
  modes: Readonly<Record<string, { label: string }>>,
) => ({ reference: labelIn(modes, reference), candidate: labelIn(modes, candidate) });

/** The completed rounds. If there is none, the modes have what was served of the first. */
export const roundsServed = (
  { rounds }: { rounds: number },
  modes: Readonly<Record<string, unknown>>,
): string =>
  rounds === 0 && Object.keys(modes).length > 0 ? 'a part of the first round' : plural(rounds, 'round');

/** `kept`: why the modes are not compared; null: they are. */
function experimentSection(
  experiment: Experiment,
  { target: { kind }, config }: BenchReport,
  kept: string | null,
): Section {
  const { title, comparison, modes, audit } = experiment;
  const windows = windowSavings(experiment.windows, config);
  const list = Object.values(modes);
  return {
    title,
    intro: `${roundsServed(experiment, modes)}${kind === 'cluster' ? ', modes alternating; caches reset and holds drained in between' : "; the server's caches were kept in between"}.`,
    pieces: [
      ...(kept && comparison ? [{ kind: 'text', text: kept } as const] : []),
      ...(comparison && !kept
        ? [comparesEqually(experiment) ? againstFigures(experiment) : ratioFigures(comparison, modes)]
        : []),
      modesTable(list),
      ...(kept ? [] : againstTables(experiment)),
      ...(comparison && !kept && !comparesEqually(experiment) ? [ratioTable(comparison, experiment)] : []),
      {
        kind: 'distribution',
        title: 'Time to the first token by request',
        unit: 'ms',
        series: list.map(({ label, samples }) => ({
          name: label,
          values: samples.map(({ ttft_ms }) => ttft_ms),
        })),
        note: 'Each dot is a request (at most 400 per mode are drawn). The bar spans the middle half; the line across it is the median.',
      },
      ...stagePieces(modes),
      ...(list.some(({ path }) => path) ? wayTables(experiment) : [costTable(list)]),
      ...(windows ? [{ kind: 'text', text: windows } as const] : []),
      ...(audit ? [{ kind: 'text', text: benchAuditSentence(audit) } as const] : []),
      ...(audit?.turns.length ? [auditTable(audit.turns)] : []),
      ...list.map(vllmTable),
    ],
  };
}

function ratioFigures(comparison: BenchComparison, modes: Experiment['modes']): FiguresPiece {
  const { ttft_ms, tpot_ms, latency_ms, computed_tokens_saved } = comparison;
  const { reference, candidate } = namesIn(comparison, modes);
  return {
    kind: 'figures',
    figures: [
      ratioFigure('mean TTFT', ttft_ms.mean),
      ratioFigure('median TTFT', ttft_ms.p50),
      ratioFigure('mean TPOT', tpot_ms.mean),
      ratioFigure('mean latency', latency_ms.mean),
      ...(computed_tokens_saved === null
        ? []
        : [
            {
              label: 'computed tokens saved',
              value: formatCount(computed_tokens_saved),
              note: `by ${candidate} against ${reference}`,
            },
          ]),
    ],
  };
}

const name = ({ label }: BenchMode): Cell => ({ text: label, strong: true });

const modesTable = (modes: readonly BenchMode[]): TablePiece => ({
  kind: 'table',
  title: 'Modes',
  columns: [
    left('mode'),
    ...under('TTFT, ms', 'mean', 'p50', 'p90', 'p99'),
    ...right('TPOT, ms', 'latency, ms'),
    ...under('prompt tokens', 'pulled', 'computed'),
    { head: 'failed' },
  ],
  rows: modes.map((mode) => {
    const { ttft_ms, tpot_ms, latency_ms } = mode.table;
    return [
      name(mode),
      formatMs(ttft_ms.mean),
      formatMs(ttft_ms.p50),
      formatMs(ttft_ms.p90),
      formatMs(ttft_ms.p99),
      formatMs(tpot_ms.mean),
      formatMs(latency_ms.mean),
      mode.pulled_tokens === null ? '-' : formatCount(mode.pulled_tokens),
      mode.computed_tokens === null ? '-' : formatCount(mode.computed_tokens),
      { text: formatCount(mode.failed_requests), tone: mode.failed_requests > 0 ? 'bad' : 'plain' },
    ];
  }),
});

function ratioTable(comparison: BenchComparison, { published, modes }: Experiment): TablePiece {
  const { reference, candidate } = namesIn(comparison, modes);
  return {
    kind: 'table',
    title: `TTFT: ${reference} against ${candidate}, request by request`,
    columns: [
      left(''),
      ...right(`${reference}, ms`, `${candidate}, ms`, 'ratio', '95% interval'),
      ...(published ? [{ head: 'published' }] : []),
    ],
    rows: COMPARED_STATISTICS.filter(
      (statistic) => statistic !== 'p99' || comparison.requests >= ENOUGH_FOR_P99,
    ).map((statistic) => {
      const ratio = comparison.ttft_ms[statistic];
      const ratios = published?.ttft_ms[statistic];
      return [
        statistic,
        formatMs(ratio.reference),
        formatMs(ratio.candidate),
        { text: times(ratio), tone: toneOf(ratio), strong: true },
        interval(ratio),
        ...(published
          ? [
              ratios
                ? `${ratios.ratio.toFixed(2)}x (${formatMs(ratios.reference)} → ${formatMs(ratios.candidate)})`
                : '',
            ]
          : []),
      ];
    }),
    note: `Above 1, ${candidate} is faster. Bootstrap over requests with all their rounds, ${plural(comparison.requests, 'pair')} of answers; ${formatCount(comparison.bootstrap.resamples)} resamples.${published ? ` Published: ${published.source}.` : ''}`,
  };
}

function stagePieces(modes: Readonly<Record<string, BenchMode>>): Piece[] {
  const list = Object.values(modes).filter(({ stages_ms }) => Object.keys(stages_ms).length > 0);
  if (list.length === 0) return [];
  const [without, pulling] = [modes.unidirectional, modes.bidirectional];
  return [
    {
      kind: 'stages',
      title: 'Time to the first token by stage, mean of all requests',
      unit: 'ms',
      parts: STAGE_PARTS,
      bars: list.map(({ label, stages_ms }) => ({ name: label, values: groupStages(stages_ms) })),
    },
    ...(without && pulling ? [pullingWaterfall(without.stages_ms, pulling.stages_ms)] : []),
  ];
}

function costTable(modes: readonly BenchMode[]): TablePiece {
  const stores = modes.some(({ bytes_from_store }) => bytes_from_store !== undefined);
  const mb = (bytes: number | null | undefined): string => (bytes == null ? '-' : formatMb(bytes));
  return {
    kind: 'table',
    title: 'Cost of reuse',
    columns: [
      left('mode'),
      ...under('blocks held for P on D', 'mean', 'peak', 'MB·s'),
      { head: 'tokens/s' },
      ...under('between tokens, ms', 'p50', 'p99', 'max'),
      ...under('MB moved', 'P→D', 'D→P', ...(stores ? ['from store', 'to store', 'two hops'] : [])),
    ],
    rows: modes.map((mode) => {
      const { held_for_p: held, itl_ms: itl } = mode;
      return [
        name(mode),
        held === null ? '-' : held.mean_blocks.toFixed(1),
        held === null ? '-' : formatCount(held.peak_blocks),
        held === null ? '-' : formatMb(held.byte_seconds),
        mode.output_tokens_per_second.toFixed(1),
        formatMs(itl?.p50 ?? null),
        formatMs(itl?.p99 ?? null),
        formatMs(itl?.max ?? null),
        ...[mode.bytes_p_to_d, mode.bytes_d_to_p].map(mb),
        ...(stores ? [mode.bytes_from_store, mode.bytes_to_store, mode.two_hop_bytes].map(mb) : []),
      ];
    }),
  };
}

const STATISTICS = ['count', 'mean', 'std', 'min', 'p25', 'p50', 'p75', 'p90', 'p99', 'max'] as const;

const vllmTable = ({ label, table }: BenchMode): TablePiece => ({
  kind: 'table',
  title: `${label}: vLLM's table`,
  folded: true,
  columns: [{ head: '', align: 'left' }, ...STATISTICS.map((head) => ({ head }))],
  rows: BENCH_METRICS.map((metric) => [
    metric,
    ...STATISTICS.map((statistic) => {
      const value = table[metric][statistic];
      return statistic === 'count' ? formatCount(value ?? 0) : formatMs(value);
    }),
  ]),
});
