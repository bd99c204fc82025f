/** The page's headline: what just happened. */
import { useComputed } from '@preact/signals';
import type { Session } from '../session/types.ts';
import { tell } from './story.ts';

export function StoryView({ session: { state } }: { session: Session }) {
  const story = useComputed(() =>
    tell({
      status: state.status.value,
      mode: state.settings.value.mode,
      turns: state.turns.value,
      transfers: state.transfers.value,
      storeTransfers: state.storeTransfers.value,
      race: state.race.value,
      stall: state.stall.value,
      beganMs: state.beganMs.value,
    }),
  );
  const { tone, headline, detail } = story.value;
  const { phase, progress } = state.status.value;
  return (
    <section class="story" data-tone={tone} aria-label="What happens now">
      <p class="story-headline" aria-live="polite">
        {headline}
      </p>
      <p class="story-detail">{detail}</p>
      {phase === 'starting' && (
        <progress class="story-progress" value={progress ?? undefined} max={1} aria-label="Starting" />
      )}
    </section>
  );
}
