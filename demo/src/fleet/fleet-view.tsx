/** The fleet view: engines simulated in a separate thread, or real ones; load, scaling, failures, and policies compared. */
import './styles/view.css';
import './styles/router.css';
import './styles/tiles.css';
import './styles/store.css';
import './styles/charts.css';
import { useEffect, useMemo } from 'preact/hooks';
import type { LiveEvent } from '../../../src/simulate/live/view.ts';
import { Note } from '../panels/note.tsx';
import type { Session } from '../session/types.ts';
import { Controls } from './controls.tsx';
import { ExerciseView } from './exercise-view.tsx';
import { Fleet } from './fleet.ts';
import { LatencyView } from './latency-view.tsx';
import { eventInWords, withShortNames } from './names.ts';
import { PathView } from './path-view.tsx';
import { RouterView } from './router-view.tsx';
import { Tiles } from './tiles.tsx';

export function FleetView({ session }: { session: Session }) {
  const fleet = useMemo(() => new Fleet(), []);
  useEffect(() => {
    // For the console, and for tests.
    Object.assign(globalThis, { kvferryFleet: fleet });
    const leave = fleet.watch();
    return () => {
      Object.assign(globalThis, { kvferryFleet: null });
      leave();
    };
  }, [fleet]);
  return (
    <main class="main fleet" id="fleet" tabIndex={-1} data-engines={fleet.settings.value.engines}>
      <div class="fleet-side">
        <Controls fleet={fleet} session={session} />
      </div>
      <div class="show">
        <Said fleet={fleet} />
        <RouterView fleet={fleet} />
        <Tiles fleet={fleet} />
        <LatencyView fleet={fleet} />
        <PathView fleet={fleet} />
        <ExerciseView fleet={fleet} />
      </div>
    </main>
  );
}

/** Events that a screen reader says; the chart and its table have all of them. */
const HEARD: ReadonlySet<LiveEvent['event']> = new Set(['joined', 'left', 'died', 'failed']);
const MOST_HEARD = 3;

function Said({ fleet }: { fleet: Fleet }) {
  return (
    <>
      {fleet.failed.value !== null && (
        <div class="problem" role="alert">
          <p>The simulation stopped: {fleet.failed.value}.</p>
          <button type="button" onClick={() => fleet.begin()}>
            Start over
          </button>
        </div>
      )}
      {fleet.gaveWay.value !== null && (
        <div class="problem" role="alert">
          <p>No real engines: {fleet.gaveWay.value.replace(/\.$/, '')}. The fleet is simulated instead.</p>
        </div>
      )}
      {fleet.starting.value !== null && (
        <p class="fleet-starting" role="status">
          {fleet.starting.value}
        </p>
      )}
      <div class="notes" role="log" aria-label="Notes of the fleet">
        {fleet.notes.said.value.map(({ id, message }) => (
          <Note key={id} level="warning" message={withShortNames(message)} />
        ))}
      </div>
      <div class="visually-hidden" role="log" aria-label="Engines that came and went">
        {(fleet.look.value?.events ?? [])
          .filter(({ event }) => HEARD.has(event))
          .slice(-MOST_HEARD)
          .map((event) => (
            <p key={`${event.atMs} ${event.event} ${event.engineId}`}>{eventInWords(event)}</p>
          ))}
      </div>
    </>
  );
}
