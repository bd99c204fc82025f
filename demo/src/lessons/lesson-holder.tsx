/** The place of the running lesson: what lessons say is fetched when the first one begins. */
import { useSignal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Session } from '../session/types.ts';

export function LessonHolder({ session }: { session: Session }) {
  const view = useSignal<{ View: FunctionComponent<{ session: Session }> } | 'lost' | null>(null);
  const wanted = session.state.settings.value.lesson !== null;
  useEffect(() => {
    if (!wanted || view.peek()) return;
    import('./lesson-view.tsx').then(
      ({ LessonView }) => {
        view.value = { View: LessonView };
      },
      () => {
        view.value = 'lost';
      },
    );
  }, [wanted]);
  if (!wanted || view.value === null) return null;
  if (view.value === 'lost') return <p class="problem">The lesson could not be fetched: reload the page.</p>;
  const { View } = view.value;
  return <View session={session} />;
}
