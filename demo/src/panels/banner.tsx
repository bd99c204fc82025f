/** Below the masthead: a recording's bar, and the last things worth saying. */
import { saidMs } from '../session/reading.ts';
import type { Session } from '../session/types.ts';
import { plainly } from '../views/plain-words.ts';

/** Notes of so long ago are over. */
const NOTE_MS = 20_000;

export function Banner({ session }: { session: Session }) {
  const { state } = session;
  const replay = state.replay.value;
  const { phase, message } = state.status.value;
  return (
    <div class="banner">
      {replay && (
        <p class="replay" role="note" aria-label="Recording">
          <strong class="replay-mark">Recorded</strong> <span class="replay-title">{replay.title}</span>
          {replay.canEnd && (
            <button type="button" onClick={() => void session.actions.endReplay()}>
              Back to the engines
            </button>
          )}
        </p>
      )}
      {phase === 'failed' && (
        <p class="banner-failed" role="alert">
          {message}
        </p>
      )}
      <Notes session={session} />
    </div>
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
    <div class="notes" role="log" aria-label="Notes">
      {shown.map((note) => (
        <p
          key={note.id}
          class="note"
          data-level={note.level}
          style={{ animationDuration: `${saidMs(note.message)}ms` }}
        >
          {plainly(note.message)}
        </p>
      ))}
    </div>
  );
}
