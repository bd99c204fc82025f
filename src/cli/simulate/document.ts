/** A simulation as a report document: TTFT by arm, load over time, engines. */

import { FAULTS, type FaultKind } from '../../faults/schedule.ts';
import { formatCount, formatMs, formatPercent, plural } from '../../measure/format.ts';
import type {
  AgainstReport,
  SimulatedArm,
  SimulationReport,
} from '../../measure/schemas/simulation-report.ts';
import type { TurnTimeline } from '../../measure/spans/turn-timeline.ts';
import {
  type CurvePiece,
  left,
  type Piece,
  type ReportDocument,
  right,
  type Section,
  under,
} from '../../report/document.ts';
import { figureCells, otherWork } from './against.ts';
import { armSections } from './arm-sections.ts';
import {
  movingLines,
  rateIn,
  tierTimesLine,
  timesOf,
  unaskedTurns,
  verdictLine,
  verdictTone,
  workloadOf,
} from './output.ts';
import { ALIKE, seedFigures, seedsAreAlike } from './seeds.ts';

/** `timelines`: one turn's timeline per arm; null if the arm was not followed. */
export function simulationDocument(
  report: SimulationReport,
  timelines: readonly (TurnTimeline | null)[],
): ReportDocument {
  const { arms, workload } = report;
  return {
    command: 'kvferry simulate',
    headline: `${report.fleet}, simulated`,
    subtitle: `KV of ${report.model}; ${workloadOf(report)}; ${workload.asked}`,
    verdicts: [
      { tone: 'plain', text: `Simulated. ${timesOf(report)}` },
      ...movingLines(report).map((text) => ({ tone: 'plain' as const, text })),
      ...arms.map((arm) => ({
        tone: verdictTone(arm, workload),
        text: `${arm.label}: ${verdictLine(arm, workload)}`,
      })),
    ],
    sections: [
      speedSection(report),
      ...(report.against?.arms ?? []).map((arm) => againstSection(arm, report.against!)),
      ...troubleSection(report),
      ...(report.store_times ? [storeSection(arms, report.store_times)] : []),
      ...arms.flatMap((arm, i) => armSections(arm, timelines[i] ?? null, report.seed)),
    ],
    footer: `kvferry ${report.kvferry} simulate, seed ${report.seed}. No engine ran: decisions come from the real policy code, durations from the cost model.`,
  };
}

function speedSection({ arms, seed }: SimulationReport): Section {
  const slo = arms.find(({ goodput }) => goodput)?.goodput ?? null;
  const rows = arms.map(({ label, ttft_ms: ttft, tpot_ms: tpot, goodput, ...arm }) => [
    { text: label, strong: true },
    ...[ttft?.mean, ttft?.p50, ttft?.p90, ttft?.p99, tpot?.p50, tpot?.p90].map((ms) => formatMs(ms ?? null)),
    rateIn(arm, arm.requests_per_second),
    ...(slo ? [formatPercent(goodput?.share ?? 0), rateIn(arm, goodput?.requests_per_second ?? 0)] : []),
    ...[arm.local_hit_tokens, arm.pulled_tokens, arm.computed_tokens].map(formatCount),
  ]);
  return {
    title: 'Latency and throughput',
    ...(slo && { intro: `The SLO: ${sloOf(slo)}.` }),
    pieces: [
      quantiles(arms),
      {
        kind: 'table',
        title: 'Side by side',
        columns: [
          left(''),
          ...under('TTFT, ms', 'mean', 'p50', 'p90', 'p99'),
          ...under('TPOT, ms', 'p50', 'p90'),
          ...right('req/s'),
          ...(slo ? under('meet the SLO', 'share', 'per second') : []),
          ...under('prompt tokens', 'hit', 'pulled', 'computed'),
        ],
        rows,
      },
      ...(arms.some(({ seeds }) => seeds > 1)
        ? [seedsAreAlike(arms) ? ({ kind: 'text', text: ALIKE } as const) : seedTable(arms, seed)]
        : []),
    ],
  };
}

const sloOf = ({ slo_ttft_ms: ttft, slo_tpot_ms: tpot }: NonNullable<SimulatedArm['goodput']>): string =>
  [
    ...(ttft === null ? [] : [`TTFT within ${ttft} ms`]),
    ...(tpot === null ? [] : [`TPOT within ${tpot} ms`]),
  ].join(' and ');

/** Results per seed. */
function seedTable(arms: readonly SimulatedArm[], first: number): Piece {
  const figures = seedFigures(arms);
  return {
    kind: 'table',
    title: 'Results by seed, times in ms',
    columns: [left(''), ...right('seed', ...figures.map(({ name }) => name)), left('verdict')],
    rows: arms.flatMap(({ label, by_seed }) =>
      by_seed.map((one, i) => [
        i === 0 ? { text: label, strong: true } : '',
        String(first + i),
        ...figures.map(({ of, shown }) => shown(of(one))),
        one.verdict,
      ]),
    ),
  };
}

/** Failed requests and injected faults; empty if there were none. */
function troubleSection({ arms, workload }: SimulationReport): Section[] {
  const kinds = [...new Set(arms.flatMap(({ faults }) => Object.keys(faults ?? {})))] as FaultKind[];
  const failed = arms.filter(({ failed_requests }) => failed_requests > 0);
  if (failed.length === 0 && arms.every(({ faults }) => !faults)) return [];
  const happened: Piece = {
    kind: 'table',
    title: 'Faults',
    columns: [left(''), ...right(...arms.map(({ label }) => label))],
    rows: kinds.map((kind) => [FAULTS[kind], ...arms.map(({ faults }) => formatCount(faults?.[kind] ?? 0))]),
  };
  const errors: Piece = {
    kind: 'table',
    title: 'Failed requests',
    columns: [left(''), ...right('of', 'failed'), left('why')],
    rows: failed.flatMap(({ label, requests, failed_requests, errors }) =>
      errors.map(({ message, count }, i) => [
        i === 0 ? { text: label, strong: true } : '',
        i === 0 ? formatCount(requests + failed_requests) : '',
        { text: formatCount(count), tone: 'bad' as const },
        message,
      ]),
    ),
  };
  return [
    {
      title: 'Faults and failures',
      intro: [
        ...(failed.length === 0 ? ['No request failed.'] : []),
        ...(workload.faults === null ? [] : [`${plural(workload.faults, 'fault')} planned for each seed.`]),
        ...failed.flatMap((arm) => {
          const unasked = unaskedTurns(arm, workload);
          if (unasked === 0) return [];
          return `${arm.label}: ${plural(unasked, 'turn')} not sent, because an earlier turn failed.`;
        }),
      ].join(' '),
      pieces: [...(kinds.length > 0 ? [happened] : []), ...(failed.length > 0 ? [errors] : [])],
    },
  ];
}

function againstSection(arm: AgainstReport['arms'][number], { source, clients }: AgainstReport): Section {
  const other = otherWork(arm, clients);
  return {
    title: `${arm.label} against ${arm.real} of ${source}`,
    pieces: [
      {
        kind: 'table',
        title: 'Simulated and measured',
        quiet: true,
        columns: [left(''), ...right('real', 'simulated', 'error')],
        rows: arm.figures.map(figureCells),
      },
      ...(other ? [{ kind: 'text', text: other, tone: 'bad' } as const] : []),
    ],
  };
}

function storeSection(
  arms: readonly SimulatedArm[],
  { assumed, tiers }: NonNullable<SimulationReport['store_times']>,
): Section {
  const seeds = Math.max(...arms.map((arm) => arm.seeds));
  const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
  return {
    title: 'Store',
    intro: [
      assumed
        ? 'The cost model has no store times: loads and saves are assumed to take as long as READs between engines.'
        : 'Loads and saves take the times in the cost model.',
      ...tiers.map(tierTimesLine),
      ...(seeds > 1
        ? [`Blocks are those at the end of the first seed; other figures are totals of all ${seeds}.`]
        : []),
    ].join(' '),
    pieces: [
      {
        kind: 'table',
        title: 'Contents and traffic',
        columns: [
          left(''),
          ...right('blocks', 'capacity', 'evicted'),
          ...under('blocks', 'looked up', 'found'),
          ...right('tokens loaded'),
          ...under('MB', 'to P', 'to D', 'saved', 'by two hops'),
        ],
        rows: arms.flatMap(({ label, store }) =>
          store
            ? [
                [
                  { text: label, strong: true },
                  ...[store.blocks, store.slots, store.evicted].map(formatCount),
                  ...[store.lookups, store.hits, store.loaded_tokens].map(formatCount),
                  ...[store.bytes_to_p, store.bytes_to_d, store.bytes_saved, store.two_hop_bytes].map(mb),
                ],
              ]
            : [],
        ),
      },
      ...(tiers.length > 0 ? [tierTable(arms)] : []),
    ],
  };
}

const tierTable = (arms: readonly SimulatedArm[]): Piece => ({
  kind: 'table',
  title: 'Tiers',
  columns: [left(''), left('tier'), ...under('blocks', 'found', 'written', 'not written', 'at the end')],
  rows: arms.flatMap(({ label, store }) =>
    (store?.tiers ?? []).map(({ tier, hits, written, left_out, blocks }) => [
      { text: label, strong: true },
      tier,
      ...[hits, written, left_out, blocks].map(formatCount),
    ]),
  ),
});

/** The distribution by its known quantiles, because there may be millions of samples. */
function quantiles(arms: readonly SimulatedArm[]): CurvePiece {
  return {
    kind: 'curve',
    title: 'TTFT quantiles',
    x: { label: 'share of requests that were no slower, %' },
    y: { label: 'TTFT, ms' },
    series: arms.flatMap(({ label, ttft_ms: ttft }) => {
      if (!ttft) return [];
      const { min, p25, p50, p75, p90, p99 } = ttft;
      const known = [
        [0, min],
        [25, p25],
        [50, p50],
        [75, p75],
        [90, p90],
        [99, p99],
      ] as const;
      return [{ name: label, points: known.flatMap(([x, y]) => (y === null ? [] : [{ x, y }])) }];
    }),
  };
}
