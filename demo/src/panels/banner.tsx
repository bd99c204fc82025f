/** Below the masthead: a recording's bar, and the last things worth saying. */
import { SPEEDS } from '../session/replay.ts';
import type { ReplayView, Session } from '../session/types.ts';
import { plainly } from '../views/plain-words.ts';

/** Notes of so long ago are over. */
const NOTE_MS = 20_000;

export function Banner({ session }: { session: Session }) {
  const { state, actions } = session;
  const replay = state.replay.value;
  const { phase, message } = state.status.value;
  return (
    <div class="banner">
      {replay && <ReplayBar replay={replay} actions={actions} />}
      {phase === 'failed' && (
        <p class="banner-failed" role="alert">
          {message}
        </p>
      )}
      <Notes session={session} />
    </div>
  );
}

function ReplayBar({ replay, actions }: { replay: ReplayView; actions: Session['actions'] }) {
  const seconds = (value: number) => `${(value / 1000).toFixed(1)} s`;
  return (
    <section class="replay" aria-label="Recording">
      <strong class="replay-mark">Recorded</strong>
      <span class="replay-title">{replay.title}</span>
      <label class="replay-seek">
        <span class="visually-hidden">Position</span>
        <input
          type="range"
          min={0}
          max={Math.ceil(replay.lengthMs)}
          step={10}
          value={replay.atMs}
          aria-valuetext={`${seconds(replay.atMs)} of ${seconds(replay.lengthMs)}`}
          onInput={(event) => actions.seek(event.currentTarget.valueAsNumber)}
        />
        <span class="number">
          {seconds(replay.atMs)} of {seconds(replay.lengthMs)}
        </span>
      </label>
      <label class="replay-speed">
        Speed{' '}
        <select
          value={String(replay.speed)}
          onChange={(event) => actions.setSpeed(Number(event.currentTarget.value))}
        >
          {SPEEDS.map((speed) => (
            <option key={speed} value={String(speed)}>
              {speed}×
            </option>
          ))}
        </select>
      </label>
    </section>
  );
}

function Notes({ session: { state } }: { session: Session }) {
  const notes = state.notes.value;
  const recorded = state.status.value.phase === 'recorded';
  const newest = notes.at(-1)?.atMs ?? 0;
  // A recording's reason to be shown stays; what happened long before the newest note goes.
  const shown = notes
    .filter((note) => note.level === 'warning' || !recorded)
    .filter((note) => newest - note.atMs < NOTE_MS)
    .slice(-3);
  return (
    <ul class="notes" role="log" aria-label="Notes">
      {shown.map((note) => (
        <li key={note.id} class="note" data-level={note.level}>
          {plainly(note.message)}
        </li>
      ))}
    </ul>
  );
}
