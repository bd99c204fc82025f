/** Play, pause, step, reset, and the mode, for engines and recordings. */
import type { Mode, Session } from '../session/types.ts';
import { Button } from '../views/button.tsx';
import { MODES } from '../views/modes.ts';

export function Transport({ session: { state, actions } }: { session: Session }) {
  const { phase } = state.status.value;
  const recorded = phase === 'recorded';
  const playing = state.playing.value;
  const idle = phase === 'ready' || recorded;
  return (
    <div class="transport-row">
      <fieldset class="transport-buttons" aria-label="Play the conversation">
        {playing ? (
          <Button class="primary" inPlace onClick={() => actions.pause()}>
            Pause
          </Button>
        ) : (
          <Button class="primary" off={!idle} onClick={() => actions.play()}>
            Play
          </Button>
        )}
        <Button off={!idle || playing} title="Play one turn" onClick={() => void actions.step()}>
          Step
        </Button>
        <Button off={phase === 'starting'} onClick={() => void actions.reset()}>
          Reset
        </Button>
      </fieldset>
      {recorded && (
        <p class="mode-now">
          Mode: <strong>{MODES[state.settings.value.mode].name}</strong>
        </p>
      )}
      {!recorded && (
        <fieldset class="modes">
          <legend>Mode</legend>
          {(Object.keys(MODES) as Mode[]).map((mode) => (
            <label key={mode} class="mode" title={MODES[mode].about}>
              <input
                type="radio"
                name="mode"
                value={mode}
                checked={state.settings.value.mode === mode}
                disabled={phase === 'starting'}
                onChange={() => void actions.configure({ mode })}
              />
              <span>{MODES[mode].name}</span>
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}
