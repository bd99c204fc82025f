/** p50 and p99 of the time to the first token as the fleet runs, the SLO, and what happened meanwhile. */
import { useComputed } from '@preact/signals';
import type { LiveLook } from '../../../src/simulate/live/look.ts';
import { AsTable } from '../views/as-table.tsx';
import { ms } from '../views/format.ts';
import { ChartHolder } from './chart-holder.tsx';
import type { Fleet } from './fleet.ts';
import type { Chart } from './line-chart.ts';
import { eventInWords, seconds } from './names.ts';
import type { FleetSettings } from './settings.ts';
import { TimesTag } from './times-tag.tsx';

const TABLE_POINTS = 20;
const TABLE_EVENTS = 20;

export function LatencyView({ fleet }: { fleet: Fleet }) {
  const chart = useComputed((): Chart => chartOf(fleet.look.value, fleet.settings.value));
  const look = fleet.look.value;
  const last = look?.latency.at(-1);
  return (
    <section class="panel" aria-label="Time to the first token">
      <div class="panel-head">
        <h3>
          Time to the first token, over the last 10 s of answers <TimesTag fleet={fleet} />
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

function PointTable({ look: { latency } }: { look: LiveLook }) {
  return (
    <AsTable summary="Chart as a table">
      <table>
        <thead>
          <tr>
            <th scope="col">at</th>
            <th scope="col">p50</th>
            <th scope="col">p99</th>
            <th scope="col">answers</th>
          </tr>
        </thead>
        <tbody>
          {latency.slice(-TABLE_POINTS).map(({ atMs, p50Ms, p99Ms, answers }) => (
            <tr key={atMs}>
              <th scope="row">{seconds(atMs)}</th>
              <td>{shown(p50Ms)}</td>
              <td>{shown(p99Ms)}</td>
              <td>{answers}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </AsTable>
  );
}

function EventTable({ look: { events } }: { look: LiveLook }) {
  return (
    <AsTable summary="What happened, as a table">
      {events.length === 0 ? (
        <p>Nothing yet.</p>
      ) : (
        <table>
          <tbody>
            {events.slice(-TABLE_EVENTS).map((event, i) => (
              <tr key={`${event.atMs} ${i}`}>
                <th scope="row">{seconds(event.atMs)}</th>
                <td>{eventInWords(event)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </AsTable>
  );
}
