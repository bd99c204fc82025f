/** Controls of the time that is shown: freeze, resume, replay, seek, next stage, live, and the speed. */
import { SPEEDS, type Speed } from '../session/settings.ts';
import type { Session } from '../session/types.ts';
import { ms, slowerInWords } from '../views/format.ts';

const NAMES: Record<Speed, string> = {
  slow: 'slow enough to follow',
  live: 'as it happens',
  '4/1': '4×',
  '1/4': '1/4×',
  '1/10': '1/10×',
  '1/30': '1/30×',
  '1/100': '1/100×',
};

export function TimeBar({ session: { state, actions } }: { session: Session }) {
  const { atMs, lengthMs, follows, playing, speed } = state.time.value;
  const nothing = lengthMs <= 0;
  // A recording at its end plays from the start again.
  const over = follows || (state.replay.value !== null && atMs >= lengthMs);
  const slower = speed > 0 ? slowerInWords(1 / speed) : null;
  const whose = state.replay.value ? 'the recording' : 'the last turn';
  return (
    <section class="time-bar" aria-label="Time">
      {playing ? (
        <button type="button" onClick={() => actions.pauseTime()}>
          Freeze
        </button>
      ) : (
        <button type="button" disabled={nothing} onClick={() => (follows ? again() : actions.playTime())}>
          {over ? 'Replay' : 'Resume'}
        </button>
      )}
      <button type="button" disabled={nothing} title="To the next stage" onClick={() => actions.stepTime()}>
        Next stage
      </button>
      <input
        type="range"
        aria-label={`Time in ${whose}`}
        min={0}
        max={Math.max(1, Math.ceil(lengthMs))}
        step={0.1}
        disabled={nothing}
        value={atMs}
        aria-valuetext={`${ms(atMs)} of ${ms(lengthMs)}`}
        onInput={(event) => actions.seek(event.currentTarget.valueAsNumber)}
      />
      <span class="time-figures number">
        {ms(atMs)} of {ms(lengthMs)}
        {slower && `, ${slower}`}
        {speed > 1 && `, ${speed}× faster`}
      </span>
      {!follows && !state.replay.value && (
        <button type="button" class="quiet" onClick={() => actions.toNow()}>
          Live
        </button>
      )}
      <label class="time-speed">
        <span class="visually-hidden">Playback speed</span>
        <select
          value={state.settings.value.speed}
          onChange={(event) => void actions.configure({ speed: event.currentTarget.value as Speed })}
        >
          {(Object.keys(SPEEDS) as Speed[]).map((name) => (
            <option key={name} value={name}>
              {NAMES[name]}
            </option>
          ))}
        </select>
      </label>
    </section>
  );

  /** Shows the last turn again. */
  function again(): void {
    actions.seek(0);
    actions.playTime();
  }
}
