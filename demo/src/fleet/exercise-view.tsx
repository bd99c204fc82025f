/** The exercise: three routers under the same load with the same seed. */
import { useComputed } from '@preact/signals';
import { ROUTING_NAMES, type RoutingName } from '../../../src/config/routing.ts';
import type { ComparedPolicy, Comparison } from '../../../src/simulate/live/compare.ts';
import { numberChanged } from '../panels/fields.tsx';
import { Button } from '../views/button.tsx';
import { ms, percent, plural } from '../views/format.ts';
import { ChartHolder } from './chart-holder.tsx';
import { ChartTable } from './chart-table.tsx';
import type { Fleet } from './fleet.ts';
import type { Chart, Line } from './line-chart.ts';
import { comparedOf } from './settings.ts';

const COLOURS = ['p', 'd', 'pull'] as const;

export function ExerciseView({ fleet }: { fleet: Fleet }) {
  const { exercise, settings } = fleet;
  const { comparing, comparison, failed } = exercise;
  const runs = comparing.value;
  const { first, second, third, seconds, seed, rate } = settings.value;
  const chosen = { first, second, third };
  return (
    <section class="panel fleet-exercise" aria-label="The same load, three routers">
      <div class="panel-head">
        <h3>The same load, three routers</h3>
        {runs && (
          <button type="button" onClick={() => exercise.stop()}>
            Stop
          </button>
        )}
        <Button class="primary" off={runs !== null} onClick={() => exercise.begin()}>
          {runs ? `Router ${runs.done + 1} of ${runs.policies}, ${percent(runs.share)}` : 'Compare'}
        </Button>
      </div>
      <p class="quiet-text">
        {seconds} s of {rate} requests per second, seed {seed}. Each router gets its own simulated fleet with
        the settings of this page. Which one is best at p50? And at p99?
      </p>
      <div class="fleet-choices">
        {(Object.keys(chosen) as (keyof typeof chosen)[]).map((place) => (
          <label key={place}>
            <span class="visually-hidden">{place} router</span>
            <select
              value={chosen[place]}
              onChange={(event) => fleet.set({ [place]: event.currentTarget.value as RoutingName })}
            >
              {ROUTING_NAMES.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        ))}
        <label>
          for{' '}
          <input
            type="number"
            aria-label="Seconds of load"
            min={5}
            max={600}
            value={seconds}
            onChange={numberChanged(seconds, (wanted) => fleet.set({ seconds: wanted }))}
          />{' '}
          s
        </label>
      </div>
      {failed.value !== null && (
        <p class="problem" role="alert">
          The comparison stopped: {failed.value}. The fleet above keeps running.
        </p>
      )}
      <p class="visually-hidden" role="status">
        {runs === null && comparison.value?.policies.map(inWords).join(' ')}
      </p>
      {comparison.value && <Result fleet={fleet} comparison={comparison.value} />}
    </section>
  );
}

function Result({ fleet, comparison }: { fleet: Fleet; comparison: Comparison }) {
  const chart = useComputed(() =>
    chartOf(fleet.exercise.comparison.value ?? comparison, fleet.settings.value.slo),
  );
  const { settings, policies, seconds } = comparison;
  const { prefill, decode, seed, load, store } = settings;
  const asked = comparedOf(fleet.settings.value).join();
  return (
    <>
      {asked !== policies.map(({ policy }) => policy).join() && (
        <p class="quiet-text">This is the last comparison. Other routers are chosen now.</p>
      )}
      <ChartHolder name="fleet comparison" chart={chart} />
      <ChartTable chart={chart.value} />
      <table class="fleet-compared">
        <caption>
          {prefill} P and {decode} D, {load.rate} requests per second for {seconds} s, seed {seed}: modelled
        </caption>
        <thead>
          <tr>
            <th scope="col">router</th>
            <th scope="col">p50</th>
            <th scope="col">p99</th>
            <th scope="col">requests</th>
            <th scope="col">found at P</th>
            <th scope="col">{store ? 'from D or the store' : 'pulled from D'}</th>
          </tr>
        </thead>
        <tbody>
          {policies.map((policy) => (
            <Row key={policy.policy} compared={policy} />
          ))}
        </tbody>
      </table>
    </>
  );
}

const shown = (value: number | null): string => (value === null ? 'none' : ms(value));

const inWords = ({ policy, p50Ms, p99Ms }: ComparedPolicy): string =>
  `${policy}: p50 ${shown(p50Ms)}, p99 ${shown(p99Ms)}.`;

function Row({
  compared: { policy, p50Ms, p99Ms, requests, failed, hit, pulled, stopped },
}: {
  compared: ComparedPolicy;
}) {
  const notes = [
    failed > 0 ? `${failed} failed` : null,
    stopped === null ? null : `stopped with ${plural(stopped, 'request')} in progress`,
  ];
  return (
    <tr>
      <th scope="row">{policy}</th>
      <td>{shown(p50Ms)}</td>
      <td>{shown(p99Ms)}</td>
      <td>{[requests.toLocaleString('en-US'), ...notes].filter(Boolean).join(', ')}</td>
      <td>{percent(hit)}</td>
      <td>{percent(pulled)}</td>
    </tr>
  );
}

/** p99 as solid lines and p50 as dashed lines, on one axis. */
function chartOf({ policies }: Comparison, sloMs: number): Chart {
  const longest = policies.reduce((a, b) => (b.points.length > a.points.length ? b : a));
  const lines = policies.flatMap(({ policy, points }, i): Line[] => {
    const of = (
      label: string,
      dashed: boolean,
      value: (point: (typeof points)[number]) => number | null,
    ): Line => ({
      label: `${policy} ${label}`,
      colour: COLOURS[i]!,
      dashed,
      values: longest.points.map((_, at) => (points[at] ? value(points[at]) : null)),
    });
    return [of('p99', false, ({ p99Ms }) => p99Ms), of('p50', true, ({ p50Ms }) => p50Ms)];
  });
  const timesMs = longest.points.map(({ atMs }) => atMs);
  return { simulated: true, timesMs, lines, sloMs, marks: [] };
}
