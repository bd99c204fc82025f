/** Holds the running lesson. The lessons' code is fetched when the first one begins. */
import type { Session } from '../session/types.ts';
import { useFetched } from '../views/use-fetched.ts';

export function LessonHolder({ session }: { session: Session }) {
  const wanted = session.state.settings.value.lesson !== null;
  const lessons = useFetched(wanted, () => import('./lesson-view.tsx'));
  if (!wanted || lessons === null) return null;
  if (lessons === 'lost') return <p class="problem">The lesson could not be loaded. Reload the page.</p>;
  return <lessons.LessonView session={session} />;
}
