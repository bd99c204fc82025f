/** Report sections for one arm: load over time, scaling events, the timeline of one request. */

import { SERVING_ROLES, servingRole } from '../../fleet/serving-role.ts';
import { formatCount } from '../../measure/format.ts';
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import type { TurnTimeline } from '../../measure/spans/turn-timeline.ts';
import { left, type Piece, right, type Section } from '../../report/document.ts';
import { timelineSection } from '../../report/timeline.ts';
import { endMsOf, loadOverTime, MOST_LINES } from './load-over-time.ts';
import { stayedSentence } from './output.ts';

type Scaling = NonNullable<SimulatedArm['scaling']>;

/** Longer tables are folded. */
const MOST_ROWS = 30;

/** `firstSeed`: the seed that the sections describe. */
export function armSections(arm: SimulatedArm, timeline: TurnTimeline | null, firstSeed: number): Section[] {
  return [
    loadSection(arm, firstSeed),
    ...(arm.scaling ? [scalingSection(arm, arm.scaling, firstSeed)] : []),
    ...(timeline ? [waySection(arm, timeline)] : []),
  ];
}

function waySection({ label, engines }: SimulatedArm, timeline: TurnTimeline): Section {
  const section = timelineSection(timeline, engines, true);
  return { ...section, title: `${label}: timeline of one request` };
}

function scalingSection(
  { label, engines, seeds }: SimulatedArm,
  scaling: Scaling,
  firstSeed: number,
): Section {
  const { events, mean_engines: mean } = scaling;
  const intro = [
    ...(seeds > 1
      ? [
          `The chart and the events are of seed ${firstSeed}, the first of ${seeds}; the figures are of all ${seeds}.`,
        ]
      : []),
    ...stayedSentence(scaling),
  ].join(' ');
  // An engine that joined at the very end has no load yet.
  const endMs = Math.max(endMsOf(engines), ...engines.map(({ serves_ms }) => serves_ms));
  return {
    title: `${label}: scaling`,
    ...(intro && { intro }),
    pieces: [
      {
        kind: 'figures',
        figures: [
          { label: 'P', value: mean.prefill.toFixed(2), note: 'on average' },
          { label: 'D', value: mean.decode.toFixed(2), note: 'on average' },
          ...(mean.both > 0 ? [{ label: 'both', value: mean.both.toFixed(2), note: 'on average' }] : []),
          { label: 'joined', value: formatCount(scaling.joined), note: '' },
          { label: 'left', value: formatCount(scaling.left), note: `${formatCount(scaling.died)} died` },
          {
            label: 'KV lost',
            value: formatCount(scaling.lost_tokens),
            note: `tokens held for next turns; ${formatCount(scaling.recomputed_tokens)} recomputed`,
          },
        ],
      },
      {
        kind: 'curve',
        title: 'Serving engines',
        x: { label: 'simulated seconds' },
        y: { label: 'engines' },
        series: SERVING_ROLES.map((name) => ({
          name,
          engines: engines.filter((engine) => servingRole(engine) === name),
        }))
          .filter(({ name, engines: some }) => some.length > 0 || name !== 'both')
          .map(({ name, engines: some }) => ({ name, points: servingOver(some, endMs) })),
      },
      ...(events.length > 0 ? [eventTable(events)] : []),
    ],
  };
}

const eventTable = (events: Scaling['events']): Piece => ({
  kind: 'table',
  title: 'Events',
  columns: [{ head: 'second' }, left('what'), left('engine'), left('')],
  rows: events.map(({ at_ms, event, engine_id, detail }) => [
    (at_ms / 1000).toFixed(1),
    event,
    engine_id ?? '',
    detail,
  ]),
  folded: events.length > MOST_ROWS,
});

/** Seconds with four significant digits. */
const secondsOf = (ms: number): number => Number((ms / 1000).toPrecision(4));

/** A step curve of the number of serving engines, from those at the start on. */
function servingOver(engines: SimulatedArm['engines'], endMs: number): { x: number; y: number }[] {
  const changes = engines
    .flatMap(({ serves_ms, ended_ms }) => [
      ...(serves_ms > 0 ? [{ atMs: serves_ms, by: 1 }] : []),
      ...(ended_ms === null ? [] : [{ atMs: ended_ms, by: -1 }]),
    ])
    .toSorted((a, b) => a.atMs - b.atMs);
  let count = engines.filter(({ serves_ms }) => serves_ms === 0).length;
  const points = [{ x: 0, y: count }];
  for (const { atMs, by } of changes) {
    const x = secondsOf(atMs);
    points.push({ x, y: count }, { x, y: count + by });
    count += by;
  }
  return [...points, { x: secondsOf(endMs), y: count }];
}

function loadSection(arm: SimulatedArm, firstSeed: number): Section {
  const curve = (
    title: string,
    unit: string,
    value: (slice: SimulatedArm['engines'][number]['load'][number]) => number,
  ): Piece => ({
    kind: 'curve',
    title,
    x: { label: 'simulated seconds' },
    y: { label: unit },
    series: loadOverTime(arm.engines, value),
  });
  const intro = [
    ...(arm.seeds > 1 ? [`Seed ${firstSeed}, the first of ${arm.seeds}.`] : []),
    ...(arm.engines.length > MOST_LINES
      ? ['Lines are the median of the engines of each role; the coloured band spans their range.']
      : []),
  ].join(' ');
  return {
    title: `${arm.label}: load over time`,
    ...(intro && { intro }),
    pieces: [
      curve('Time spent in steps', '% of the time', ({ busy }) => 100 * busy),
      curve('Waiting requests', 'requests', ({ waiting }) => waiting),
      curve('KV in use', '% of the pool', ({ kv_used }) => 100 * kv_used),
      {
        kind: 'table',
        title: 'Engines',
        folded: arm.engines.length > MOST_ROWS,
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
