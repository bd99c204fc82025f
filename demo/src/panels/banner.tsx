/** Below the masthead: the bar of a recording, failures, and recent notes. */
import { codeLost } from '../session/fetch-code.ts';
import type { Session } from '../session/types.ts';
import { plainly } from '../views/plain-words.ts';
import { Note } from './note.tsx';

/** Notes this much older than the newest one are removed. */
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
          {replay.why === null && (
            <button type="button" onClick={() => void session.actions.endReplay()}>
              Back to the engines
            </button>
          )}
        </p>
      )}
      {replay?.why && <p class="banner-why">{replay.why}</p>}
      {phase === 'failed' && (
        <p class="banner-failed" role="alert">
          {message}
        </p>
      )}
      {codeLost.value && (
        <p class="banner-failed" role="alert">
          Some code of this page could not be fetched: its server cannot be reached, or has another version of
          the page. What works now continues to work. When the server can be reached again, reload.{' '}
          <button type="button" onClick={() => location.reload()}>
            Reload the page
          </button>
        </p>
      )}
      <Notes session={session} />
    </div>
  );
}

function Notes({ session: { state } }: { session: Session }) {
  const notes = state.notes.value;
  const newest = notes.at(-1)?.atMs ?? 0;
  const began = state.beganMs.value;
  const engineIds = [...state.engines.value.keys()];
  // Drops notes much older than the newest, and infos about a conversation that is over.
  const shown = notes
    .filter(({ atMs, level }) => newest - atMs < NOTE_MS && (level === 'warning' || atMs >= began))
    .slice(-3);
  return (
    <div class="notes" role="log" aria-label="Notes">
      {shown.map(({ id, atMs, level, message }) => (
        // When past time is shown again, an id may be reused.
        <Note key={`${id} ${atMs}`} level={level} message={plainly(message, engineIds)} />
      ))}
    </div>
  );
}
