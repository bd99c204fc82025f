import { askThreeTimes } from './ask.ts';
import { ended, hasThreeTurns, hit } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

/** After P's cache was emptied, a turn found nothing in it and pulled. */
export function pulledAfterEviction(seen: Pick<Seen, 'turns'>): boolean {
  const turns = ended(seen);
  const lastHit = turns.findLastIndex(({ result }) => result.local_hit_tokens > 0);
  return (
    lastHit !== -1 &&
    turns
      .slice(lastHit + 1)
      .some(({ result, turn }) => turn > 1 && result.local_hit_tokens === 0 && result.pulled_tokens > 0)
  );
}

export const eviction: LessonContent = {
  text: 'P serves many conversations from one pool. When P needs blocks, it overwrites the oldest free ones (eviction), and their old content can no longer be found. When such a conversation comes back, P must start from nothing, unless another engine still has the KV.',
  tasks: [
    {
      predict: {
        ask: 'Now P keeps its blocks between turns, and D holds its own. What will P pull for the third question?',
        choices: ['The whole history', 'Only what D wrote', 'Nothing'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'Rings in P mark blocks found in its own cache. P pulls only what it lacks: the answers.',
      look: 'the blocks of P and D',
      happened: (seen) => hasThreeTurns(seen) && hit(seen),
    },
    {
      predict: {
        ask: 'P’s cache is emptied. What will P do for the next question?',
        choices: ['Compute the whole history', 'Pull the whole history', 'Refuse the turn'],
        cameTrue: () => 1,
      },
      todo: 'Empty P’s cache, and ask again',
      run: async (actions, state) => {
        // If the previous step was skipped, P has found nothing in its cache yet.
        if (!state.turns.peek().some(({ result }) => (result?.local_hit_tokens ?? 0) > 0))
          await askThreeTimes(actions, state);
        await actions.evictPrefill();
        await actions.step();
      },
      see: 'Crosses in P mark evicted blocks. Then there is more orange than before: P finds nothing in its own cache and pulls the whole history, including the part that it had computed itself.',
      look: 'the blocks of P and D',
      happened: (seen) => pulledAfterEviction(seen),
    },
  ],
  question: 'What would the same turn have cost in the unidirectional mode?',
  answer:
    'P would have computed the whole history again. A pull can bring back everything that D holds, and D holds the whole conversation: it received P’s part at the handover. That is why pulling matters most when P’s cache is small or shared by many users.',
};
