/** The fleet's controls: clock, load, policies, engines and conversations. */
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import { POLICIES } from '../../../src/router/policies/registry.ts';
import { LIVE_AUTOSCALERS } from '../../../src/simulate/live/settings.ts';
import { asNamed, ChoiceField, NumberField } from '../panels/fields.tsx';
import { costsHere } from '../session/experiments/costs.ts';
import type { Session } from '../session/types.ts';
import { plural } from '../views/format.ts';
import { EnginesChoice } from './engines-choice.tsx';
import type { Fleet } from './fleet.ts';
import { seconds } from './names.ts';
import { PageEngines } from './page-engines.tsx';
import {
  costsInWords,
  type FleetSettings,
  MEASURED,
  MOST_RATE,
  PACES,
  type Pace,
  REAL_MODEL,
  speedOf,
} from './settings.ts';
import { TimesTag } from './times-tag.tsx';
import { WorkloadFields } from './workload-fields.tsx';

export function Controls({ fleet, session }: { fleet: Fleet; session: Session }) {
  return (
    <>
      <Clock fleet={fleet} />
      <Load fleet={fleet} />
      <WorkloadFields fleet={fleet} />
      <PageEngines fleet={fleet} session={session} />
    </>
  );
}

function Clock({ fleet }: { fleet: Fleet }) {
  const { settings, held, look, speed, isReal } = fleet;
  const { pace } = settings.value;
  const slow = look.value !== null && !held.value && speed.value < 0.85 * speedOf(pace);
  return (
    <section class="panel fleet-clock" aria-label="The fleet's clock">
      <h2>
        A fleet <TimesTag fleet={fleet} />
      </h2>
      <EnginesChoice fleet={fleet} />
      <Source fleet={fleet} />
      <div class="fleet-row">
        <button type="button" class="primary" onClick={() => fleet.hold(!held.value)}>
          {held.value ? 'Resume' : isReal.value ? 'Pause the load' : 'Pause'}
        </button>
        <button type="button" onClick={() => fleet.begin()}>
          Start over
        </button>
        {!isReal.value && (
          <label>
            <span class="visually-hidden">Simulation speed</span>
            <select value={pace} onChange={(event) => fleet.set({ pace: event.currentTarget.value as Pace })}>
              {PACES.map((name) => (
                <option key={name} value={name}>
                  {name === '1' ? '1×: real time' : `${name}×`}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      <p class="fleet-now number">
        {seconds(fleet.nowMs.value)}
        {!isReal.value &&
          slow &&
          `, at ${speed.value.toFixed(2)}×: the fastest that this computer can simulate`}
      </p>
    </section>
  );
}

/** Where the times come from. */
function Source({ fleet }: { fleet: Fleet }) {
  const { settings, isReal, adapter } = fleet;
  if (isReal.value)
    return (
      <p class="fleet-source">
        All of it is real. Each engine runs {REAL_MODEL} in a thread with its own WebGPU device; all share one
        GPU{adapter.value && ` (${adapter.value})`}. Times are measured.
      </p>
    );
  const { costs } = settings.value;
  return (
    <p class="fleet-source">
      Router, schedulers, caches and connectors are the real code. The times are{' '}
      {costs === MEASURED ? 'fitted to' : 'modelled, not measured:'}{' '}
      {costsInWords(settings.value, costsHere.value)}.
    </p>
  );
}

function Load({ fleet }: { fleet: Fleet }) {
  const { settings, look } = fleet;
  const { rate, routing, autoscale, slo } = settings.value;
  const { help, source } = POLICIES[routing];
  const requests = look.value?.requests;
  const away = look.value?.turnedAway ?? 0;
  return (
    <section class="panel fleet-load" aria-label="Load and policies">
      <label class="field">
        <span class="field-label">Load: {rate} requests/s</span>
        <input
          type="range"
          min={0}
          max={MOST_RATE}
          step={1}
          value={rate}
          aria-valuetext={`${rate} requests per second`}
          onInput={(event) => fleet.set({ rate: event.currentTarget.valueAsNumber })}
        />
      </label>
      <ChoiceField
        label="Routing"
        help={`${help}; ${source}`}
        value={routing}
        choices={asNamed(ROUTING_NAMES)}
        onChange={(name) => fleet.set({ routing: name as FleetSettings['routing'] })}
      />
      <ChoiceField
        label="Autoscaler"
        help="Scales P by waiting requests (2 per engine) and D by pool use (60%), every 10 s (k8s-hpa: 15 s)."
        value={autoscale ?? 'off'}
        choices={asNamed(['off', ...LIVE_AUTOSCALERS])}
        onChange={(name) =>
          fleet.set({ autoscale: name === 'off' ? null : (name as FleetSettings['autoscale']) })
        }
      />
      <NumberField
        label="SLO: time to first token, ms"
        help="Drawn as a line in the charts."
        min={1}
        value={slo}
        onChange={(value) => fleet.set({ slo: value })}
      />
      {requests && (
        <p class="fleet-counts number">
          {plural(requests.answered, 'answer')}, {requests.underWay} in progress, {requests.failed} failed
          {away > 0 && `; ${plural(away, 'conversation')} turned away: too many in progress`}
        </p>
      )}
    </section>
  );
}
