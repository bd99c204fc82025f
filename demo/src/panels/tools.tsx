/** The masthead's buttons: fleet, settings, recordings, link, projector and theme. */
import { useSignal } from '@preact/signals';
import { fleetShown, showFleet } from '../session/shown.ts';
import type { Session } from '../session/types.ts';
import { chooseTheme, THEMES, type Theme, theme } from '../views/theme.ts';

export function Tools({ session }: { session: Session }) {
  const { state, actions } = session;
  /** What came of copying the link; null: it was not tried lately. */
  const shared = useSignal<string | null>(null);
  const share = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      shared.value = 'Copied';
    } catch {
      shared.value = 'Copy it from the address bar';
    }
    setTimeout(() => {
      shared.value = null;
    }, 2000);
  };
  const fleet = fleetShown.value;
  return (
    <>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          actions.pause();
          showFleet(!fleet);
        }}
      >
        {fleet ? 'To P and D' : 'Fleet'}
      </button>
      {!fleet && <OfEngines session={session} />}
      <button type="button" class="quiet" onClick={() => void share()}>
        {shared.value ?? 'Copy link'}
      </button>
      <span class="visually-hidden" role="status">
        {shared}
      </span>
      <button
        type="button"
        class="quiet tools-projector"
        aria-pressed={state.settings.value.projector}
        title="Large text, for a projector"
        onClick={() => void actions.configure({ projector: !state.settings.value.projector })}
      >
        Projector
      </button>
      <ThemeSwitch />
    </>
  );
}

/** Buttons that are hidden in the fleet view. */
function OfEngines({ session: { state, actions } }: { session: Session }) {
  const canSave = state.turns.value.length > 0 && state.replay.value === null;
  return (
    <>
      <button type="button" class="quiet" popovertarget="settings">
        Settings
      </button>
      <button
        type="button"
        class="quiet"
        disabled={!canSave}
        title="Save everything since the engines started as a file that this page can replay"
        onClick={() => void actions.saveRecording()}
      >
        Save recording
      </button>
      <label class="file-button">
        Load recording
        <input
          type="file"
          accept="application/json,.json"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            if (file) void actions.loadRecording(file);
            event.currentTarget.value = '';
          }}
        />
      </label>
    </>
  );
}

function ThemeSwitch() {
  return (
    <label class="theme">
      <span class="visually-hidden">Light or dark</span>
      <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
        {Object.entries(THEMES).map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
