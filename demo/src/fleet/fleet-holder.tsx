/** The place of the fleet's view: what draws and simulates it is fetched when it is first shown. */
import type { Session } from '../session/types.ts';
import { useFetched } from '../views/use-fetched.ts';

export function FleetHolder({ session }: { session: Session }) {
  const fleet = useFetched(true, () => import('./fleet-view.tsx'));
  if (fleet === null) return <p class="quiet-text">Fetching the fleet…</p>;
  if (fleet === 'lost') return <p class="problem">The fleet could not be fetched: reload the page.</p>;
  return <fleet.FleetView session={session} />;
}
