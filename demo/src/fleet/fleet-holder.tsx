/** Holds the fleet view. Its code is fetched when it is first shown. */
import type { Session } from '../session/types.ts';
import { useFetched } from '../views/use-fetched.ts';

export function FleetHolder({ session }: { session: Session }) {
  const fleet = useFetched(true, () => import('./fleet-view.tsx'));
  if (fleet === null) return <p class="quiet-text">Loading the fleet…</p>;
  if (fleet === 'lost') return <p class="problem">The fleet could not be loaded. Reload the page.</p>;
  return <fleet.FleetView session={session} />;
}
