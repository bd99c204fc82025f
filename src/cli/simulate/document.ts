/** A simulation as a page or Markdown: TTFT by arm, load over time, engines. */
import type { SimulatedArm, SimulationReport } from '../../measure/simulation-report.ts';
import type { TurnTimeline } from '../../measure/turn-timeline.ts';
import type { CurvePiece, Piece, ReportDocument, Section } from '../../report/document.ts';
import { timelineSection } from '../../report/timeline.ts';
import { formatCount, formatMs, plural } from '../format.ts';
import { left, right, under } from '../table.ts';
import { tierTimesLine, timesOf, verdictLine } from './output.ts';

type Scaling = NonNullable<SimulatedArm['scaling']>;

/** `timelines`: of each arm one turn, span by span; null: none was followed. */
export function simulationDocument(
  report: SimulationReport,
  timelines: readonly (TurnTimeline | null)[],
): ReportDocument {
  const { arms, workload } = report;
  return {
    command: 'kvferry simulate',
    headline: `${report.fleet}, simulated`,
    subtitle: `${plural(workload.conversations, 'conversation')} of ${workload.source}, ${workload.asked}`,
    verdicts: [
      { tone: 'plain', text: `Simulated. ${timesOf(report)}` },
      ...arms.map((arm) => ({
        tone: arm.verdict.word === 'STABLE' ? ('good' as const) : ('bad' as const),
        text: `${arm.label}: ${verdictLine(arm)}`,
      })),
    ],
    sections: [
      speedSection(arms),
      ...(report.store_times ? [storeSection(arms, report.store_times)] : []),
      ...arms.flatMap((arm, i) => armSections(arm, timelines[i] ?? null)),
    ],
    footer: `kvferry ${report.kvferry} simulate, seed ${report.seed}. No engine ran: who did what when is the real policy's, how long it took is the model's.`,
  };
}

function armSections(arm: SimulatedArm, timeline: TurnTimeline | null): Section[] {
  return [
    loadSection(arm),
    ...(arm.scaling ? [scalingSection(arm, arm.scaling)] : []),
    ...(timeline ? [waySection(arm, timeline)] : []),
  ];
}

function waySection({ label, engines }: SimulatedArm, timeline: TurnTimeline): Section {
  const section = timelineSection(timeline, engines);
  return { ...section, title: `${label}: one request's way through the fleet` };
}

function scalingSection({ label, engines }: SimulatedArm, scaling: Scaling): Section {
  const { events, mean_engines: mean } = scaling;
  const endMs = Math.max(...engines.flatMap(({ load, serves_ms }) => [serves_ms, load.at(-1)?.end_ms ?? 0]));
  return {
    title: `${label}: who came and went`,
    pieces: [
      {
        kind: 'figures',
        figures: [
          { label: 'P', value: mean.prefill.toFixed(2), note: 'on average' },
          { label: 'D', value: mean.decode.toFixed(2), note: 'on average' },
          { label: 'joined', value: formatCount(scaling.joined), note: '' },
          { label: 'left', value: formatCount(scaling.left), note: `${formatCount(scaling.died)} died` },
          {
            label: 'KV lost',
            value: formatCount(scaling.lost_tokens),
            note: `tokens held for next turns; ${formatCount(scaling.recomputed_tokens)} computed again`,
          },
        ],
      },
      {
        kind: 'curve',
        title: 'Engines that serve',
        x: { label: 'simulated seconds' },
        y: { label: 'engines' },
        series: (['prefill', 'decode'] as const).map((role) => ({
          name: role,
          points: servingOver(
            engines.filter((engine) => engine.role === role),
            endMs,
          ),
        })),
      },
      {
        kind: 'table',
        title: 'What happened',
        columns: [{ head: 'second' }, left('what'), left('engine'), left('')],
        rows: events.map(({ at_ms, event, engine_id, detail }) => [
          (at_ms / 1000).toFixed(1),
          event,
          engine_id ?? '',
          detail,
        ]),
        folded: events.length > 30,
      },
    ],
  };
}

/** As steps: how many serve from each change to the next. */
function servingOver(engines: SimulatedArm['engines'], endMs: number): { x: number; y: number }[] {
  const changes = engines
    .flatMap(({ serves_ms, ended_ms }) => [
      { atMs: serves_ms, by: 1 },
      ...(ended_ms === null ? [] : [{ atMs: ended_ms, by: -1 }]),
    ])
    .toSorted((a, b) => a.atMs - b.atMs);
  let count = 0;
  const points = changes.flatMap(({ atMs, by }) => {
    const before = count;
    count += by;
    return [
      { x: atMs / 1000, y: before },
      { x: atMs / 1000, y: count },
    ];
  });
  return [...points, { x: endMs / 1000, y: count }];
}

function speedSection(arms: readonly SimulatedArm[]): Section {
  const rows = arms.map(({ label, ttft_ms: ttft, tpot_ms: tpot, ...arm }) => [
    { text: label, strong: true },
    ...[ttft?.mean, ttft?.p50, ttft?.p90, ttft?.p99, tpot?.p50, tpot?.p90].map((ms) => formatMs(ms ?? null)),
    arm.requests_per_second.toFixed(2),
    ...[arm.local_hit_tokens, arm.pulled_tokens, arm.computed_tokens].map(formatCount),
  ]);
  return {
    title: 'How fast',
    pieces: [
      quantiles(arms),
      {
        kind: 'table',
        title: 'Side by side',
        columns: [
          left(''),
          ...under('TTFT, ms', 'mean', 'p50', 'p90', 'p99'),
          ...under('TPOT, ms', 'p50', 'p90'),
          ...right('requests/s'),
          ...under('prompt tokens', 'hit', 'pulled', 'computed'),
        ],
        rows,
      },
    ],
  };
}

function storeSection(
  arms: readonly SimulatedArm[],
  { assumed, tiers }: NonNullable<SimulationReport['store_times']>,
): Section {
  const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
  return {
    title: 'The store',
    intro: [
      assumed
        ? 'The costs say nothing of a store: loads and saves are assumed to take what READs between engines do.'
        : 'Loads and saves take what the costs say of them.',
      ...tiers.map(tierTimesLine),
    ].join(' '),
    pieces: [
      {
        kind: 'table',
        title: 'What it had, and what travelled',
        columns: [
          left(''),
          ...right('blocks', 'room for', 'evicted'),
          ...under('blocks', 'asked for', 'found'),
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
  title: 'What was found where',
  columns: [left(''), left('tier'), ...under('blocks', 'found', 'written', 'left out', 'there in the end')],
  rows: arms.flatMap(({ label, store }) =>
    (store?.tiers ?? []).map(({ tier, hits, written, left_out, blocks }) => [
      { text: label, strong: true },
      tier,
      ...[hits, written, left_out, blocks].map(formatCount),
    ]),
  ),
});

/** The distribution by its known quantiles: samples themselves may be millions. */
function quantiles(arms: readonly SimulatedArm[]): CurvePiece {
  return {
    kind: 'curve',
    title: 'TTFT by the share of requests that were no slower',
    x: { label: 'share of requests, %' },
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

function loadSection(arm: SimulatedArm): Section {
  const over = (
    title: string,
    unit: string,
    value: (slice: SimulatedArm['engines'][number]['load'][number]) => number,
  ): Piece => ({
    kind: 'curve',
    title,
    x: { label: 'simulated seconds' },
    y: { label: unit },
    series: arm.engines.slice(0, 8).map(({ engine_id, load }) => ({
      name: engine_id,
      points: load.map((slice) => ({ x: (slice.start_ms + slice.end_ms) / 2000, y: value(slice) })),
    })),
  });
  return {
    title: `${arm.label}: load over time`,
    pieces: [
      over('Time in steps', '% of the time', ({ busy }) => 100 * busy),
      over('Requests that wait', 'requests', ({ waiting }) => waiting),
      over('KV in use', '% of the pool', ({ kv_used }) => 100 * kv_used),
      {
        kind: 'table',
        title: 'Engines',
        columns: [left('engine'), ...right('busy, %', 'running', 'waiting', 'KV, %', 'steps', 'preempted')],
        rows: arm.engines.map((engine) => [
          engine.engine_id,
          (100 * engine.busy).toFixed(1),
          engine.running.toFixed(2),
          engine.waiting.toFixed(2),
          (100 * engine.kv_used).toFixed(1),
          formatCount(engine.steps),
          formatCount(engine.preemptions),
        ]),
      },
    ],
  };
}
