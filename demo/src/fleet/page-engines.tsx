/** Runs the fleet's settings on the page's own P and D, and measures costs on them for the simulation. */
import { useSignal } from '@preact/signals';
import { costsHere } from '../session/experiments/costs.ts';
import { enginesNeeded, showFleet } from '../session/shown.ts';
import type { Session } from '../session/types.ts';
import { Button } from '../views/button.tsx';
import type { Fleet } from './fleet.ts';

/** The most engines of each role that the page itself can run. */
const MOST_OF_THE_PAGE = 3;

export function PageEngines({ fleet, session: { state, actions } }: { fleet: Fleet; session: Session }) {
  const { prefill, decode, routing, mode, seed } = fleet.settings.value;
  const [p, d] = [Math.min(MOST_OF_THE_PAGE, prefill), Math.min(MOST_OF_THE_PAGE, decode)];
  const measuring = useSignal(false);
  const built = enginesNeeded.value;
  const { phase, progress } = state.status.value;
  const ready = (phase === 'ready' || !built) && !measuring.value;
  const doing = phase === 'starting' ? 'Starting P and D…' : 'Measuring…';
  const measure = async () => {
    measuring.value = true;
    const [held, before] = [fleet.held.peek(), costsHere.peek()];
    // A running simulation would use processor time.
    fleet.hold(true);
    try {
      await actions.measureCosts();
    } finally {
      measuring.value = false;
      fleet.hold(held);
    }
    if (costsHere.value && costsHere.value !== before) fleet.measured();
  };
  if (fleet.missing.value !== null)
    return (
      <section class="panel fleet-real" aria-label="The page's own P and D">
        <p class="field-help">This page's own P and D cannot run here either, so nothing can be measured.</p>
      </section>
    );
  return (
    <section class="panel fleet-real" aria-label="The page's own P and D">
      <button
        type="button"
        onClick={() => {
          const change = { prefill: p, decode: d, routing, mode, seed };
          // If a recording is shown, the engines start in its place.
          void (state.replay.peek() ? actions.begin(change) : actions.configure(change));
          showFleet(false);
        }}
      >
        Run {p} P and {d} D for real
      </button>
      <p class="field-help">
        Runs this page's own P and D, at most {MOST_OF_THE_PAGE} of each, with one conversation, routed by{' '}
        {routing}.
      </p>
      {!fleet.isReal.value && (
        <>
          {measuring.value && phase === 'busy' ? (
            <Button inPlace onClick={() => actions.stop()}>
              Stop measuring
            </Button>
          ) : (
            <Button off={!ready} onClick={() => void measure()}>
              {measuring.value ? doing : "Use this computer's times"}
            </Button>
          )}
          {measuring.value && (
            <progress class="story-progress" value={progress ?? undefined} max={1} aria-label={doing} />
          )}
          <p class="field-help">
            {ready || measuring.value
              ? `${built ? 'Measures the' : "Starts this page's P and D, measures their"} steps and copies, and simulates the fleet with these times.`
              : "When this page's P and D are running, their steps and copies can be measured for the fleet."}
          </p>
        </>
      )}
    </section>
  );
}
