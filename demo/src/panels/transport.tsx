/** Play, pause, one step, reset, and the mode: for engines and recordings alike. */
import type { Mode, Session } from '../session/types.ts';

const MODES: readonly { mode: Mode; name: string; about: string }[] = [
  { mode: 'bidirectional', name: 'Both ways', about: 'P pulls back the KV that D generated' },
  { mode: 'unidirectional', name: 'One way', about: 'P computes again what D generated' },
  { mode: 'monolithic', name: 'One engine', about: 'One engine prefills and decodes' },
  { mode: 'decode-local', name: 'D alone', about: 'From the second turn on D prefills by itself' },
];

export function Transport({ session: { state, actions } }: { session: Session }) {
  const { phase } = state.status.value;
  const recorded = phase === 'recorded';
  const playing = state.playing.value;
  const idle = phase === 'ready' || recorded;
  return (
    <div class="transport-row">
      <fieldset class="transport-buttons" aria-label="Play the conversation">
        {playing ? (
          <button type="button" class="primary" onClick={() => actions.pause()}>
            Pause
          </button>
        ) : (
          <button type="button" class="primary" disabled={!idle} onClick={() => actions.play()}>
            Play
          </button>
        )}
        <button
          type="button"
          disabled={!idle || playing}
          title="The next turn only"
          onClick={() => void actions.step()}
        >
          Step
        </button>
        <button type="button" disabled={phase === 'starting'} onClick={() => void actions.reset()}>
          Reset
        </button>
      </fieldset>
      {recorded && (
        <p class="mode-now">
          Mode: <strong>{MODES.find(({ mode }) => mode === state.settings.value.mode)?.name}</strong>
        </p>
      )}
      {!recorded && (
        <fieldset class="modes">
          <legend>Mode</legend>
          {MODES.map(({ mode, name, about }) => (
            <label key={mode} class="mode" title={about}>
              <input
                type="radio"
                name="mode"
                value={mode}
                checked={state.settings.value.mode === mode}
                disabled={phase === 'starting'}
                onChange={() => void actions.configure({ mode })}
              />
              <span>{name}</span>
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}
