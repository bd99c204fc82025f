/** What the page's own P and D can be of this fleet, and what can be measured on them for it. */
import { useSignal } from '@preact/signals';
import { costsHere } from '../session/costs.ts';
import { enginesNeeded, showFleet } from '../session/shown.ts';
import type { Session } from '../session/types.ts';
import type { Fleet } from './fleet.ts';

/** Engines of each kind that the page has of its own. */
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
    // It would take its part of the processor.
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
        <p class="field-help">This page's own P and D cannot run here either: nothing can be measured.</p>
      </section>
    );
  return (
    <section class="panel fleet-real" aria-label="The page's own P and D">
      <button
        type="button"
        onClick={() => {
          const change = { prefill: p, decode: d, routing, mode, seed };
          // In place of a recording they begin.
          void (state.replay.peek() ? actions.begin(change) : actions.configure(change));
          showFleet(false);
        }}
      >
        Run {p} P and {d} D for real
      </button>
      <p class="field-help">
        As this page's own P and D, with a conversation to follow; by {routing}, at most {MOST_OF_THE_PAGE} of
        each.
      </p>
      {!fleet.isReal.value && (
        <>
          {measuring.value && phase === 'busy' ? (
            <button type="button" onClick={() => actions.stop()}>
              Stop measuring
            </button>
          ) : (
            <button type="button" disabled={!ready} onClick={() => void measure()}>
              {measuring.value ? doing : "Take this computer's times"}
            </button>
          )}
          {measuring.value && (
            <progress class="story-progress" value={progress ?? undefined} max={1} aria-label={doing} />
          )}
          <p class="field-help">
            {ready || measuring.value
              ? `${built ? 'Measures' : 'Starts P and D of this page and measures their'} steps and copies; then the fleet goes by these.`
              : 'Once P and D of this page run, their steps and copies can be measured for the fleet.'}
          </p>
        </>
      )}
    </section>
  );
}
