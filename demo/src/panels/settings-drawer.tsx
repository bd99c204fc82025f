/** The settings drawer. Its content is fetched when it is first opened. */
import { useSignal } from '@preact/signals';
import type { Session } from '../session/types.ts';
import { useFetched } from '../views/use-fetched.ts';

export function SettingsDrawer({ session }: { session: Session }) {
  const opened = useSignal(false);
  const panel = useFetched(opened.value, () => import('./settings-panel.tsx'));
  return (
    <section
      class="settings"
      id="settings"
      popover="auto"
      aria-label="Settings"
      onBeforeToggle={() => {
        opened.value = true;
      }}
    >
      <div class="panel-head">
        <h2>Settings</h2>
        <button type="button" popovertarget="settings" popovertargetaction="hide">
          Close
        </button>
      </div>
      {panel === null ? (
        <p class="settings-note">Loading the settings…</p>
      ) : panel === 'lost' ? (
        <p class="problem">The settings could not be loaded. Reload the page.</p>
      ) : (
        <panel.SettingsPanel session={session} />
      )}
    </section>
  );
}
