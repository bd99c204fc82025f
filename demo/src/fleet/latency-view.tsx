/** p50 and p99 of the time to the first token while the fleet runs, with the SLO and the events. */
import { useComputed } from '@preact/signals';
import type { LatencyPoint } from '../../../src/simulate/live/latency.ts';
import type { LiveLook } from '../../../src/simulate/live/view.ts';
import { ms } from '../views/format.ts';
import { ChartHolder } from './chart-holder.tsx';
import type { Fleet } from './fleet.ts';
import type { Chart } from './line-chart.ts';
import { eventInWords, seconds } from './names.ts';
import { type Column, RowsTable } from './rows-table.tsx';
import type { FleetSettings } from './settings.ts';
import { TimesTag } from './times-tag.tsx';

/** Only the last rows are shown. */
const TABLE_ROWS = 20;

export function LatencyView({ fleet }: { fleet: Fleet }) {
  const chart = useComputed((): Chart => chartOf(fleet.look.value, fleet.settings.value));
  const look = fleet.look.value;
  const last = look?.latency.at(-1);
  return (
    <section class="panel" aria-label="Time to the first token">
      <div class="panel-head">
        <h3>
          Time to the first token, last 10 s of answers <TimesTag fleet={fleet} />
        </h3>
        {last && last.p50Ms !== null && (
          <span class="number">
            p50 {ms(last.p50Ms)}, p99 {ms(last.p99Ms!)}
          </span>
        )}
      </div>
      <ChartHolder name="fleet latency" chart={chart} />
      {look && <PointTable look={look} />}
      {look && <EventTable look={look} />}
    </section>
  );
}

function chartOf(look: LiveLook | null, { slo: sloMs, engines }: FleetSettings): Chart {
  const points = look?.latency ?? [];
  return {
    simulated: engines === 'simulated',
    timesMs: points.map(({ atMs }) => atMs),
    lines: [
      { label: 'p50', colour: 'ink2', dashed: true, values: points.map(({ p50Ms }) => p50Ms) },
      { label: 'p99', colour: 'ink', dashed: false, values: points.map(({ p99Ms }) => p99Ms) },
    ],
    sloMs,
    marks: (look?.events ?? []).map((event) => ({ atMs: event.atMs, text: eventInWords(event) })),
  };
}

const shown = (value: number | null): string => (value === null ? '' : ms(value));

const POINT: readonly Column<LatencyPoint>[] = [
  { name: 'at', cell: ({ atMs }) => seconds(atMs) },
  { name: 'p50', cell: ({ p50Ms }) => shown(p50Ms) },
  { name: 'p99', cell: ({ p99Ms }) => shown(p99Ms) },
  { name: 'answers', cell: ({ answers }) => answers },
];

const PointTable = ({ look: { latency } }: { look: LiveLook }) => (
  <RowsTable
    summary="Chart as a table"
    columns={POINT}
    rows={latency.slice(-TABLE_ROWS)}
    keyOf={({ atMs }) => atMs}
  />
);

const EventTable = ({ look: { events } }: { look: LiveLook }) => (
  <RowsTable
    summary="Events as a table"
    columns={[
      { name: 'at', cell: ({ atMs }) => seconds(atMs) },
      { name: 'event', cell: eventInWords },
    ]}
    rows={events.slice(-TABLE_ROWS)}
    keyOf={({ atMs }, i) => `${atMs} ${i}`}
  />
);
