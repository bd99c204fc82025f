import { askThreeTimes } from './ask.ts';
import { askedThrice, ended, hit } from './seen.ts';
import type { LessonContent, Seen } from './types.ts';

/** After P's cache was emptied, a turn found nothing there, and pulled. */
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
  text: 'P serves many conversations with one pool. When it needs blocks it takes the oldest free ones, and what they held can no longer be found. For the conversation that comes back later, all is as if P had never seen it. Unless somebody else still has the KV.',
  tasks: [
    {
      predict: {
        ask: 'P keeps its blocks now, and D holds its own. What will P pull for the third question?',
        choices: ['The whole history', 'Only what D wrote', 'Nothing'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'Rings in P: blocks found in its own cache. P pulls only what it does not have: the answers.',
      look: 'the blocks of P and D',
      happened: (seen) => askedThrice(seen) && hit(seen),
    },
    {
      predict: {
        ask: 'P’s cache is emptied. What will P do with the next question?',
        choices: ['Compute all of the history', 'Pull all of the history', 'Refuse it'],
        cameTrue: () => 1,
      },
      todo: 'Evict all of P, and ask again',
      run: async (actions) => {
        await actions.evictPrefill();
        await actions.step();
      },
      see: 'Crosses in P, then more orange than before: P finds nothing of its own, and pulls all of the history, its own part included.',
      look: 'the blocks of P and D',
      happened: (seen) => pulledAfterEviction(seen),
    },
  ],
  question: 'What would the same turn have cost in the unidirectional mode?',
  answer:
    'The whole history, computed again. A pull can bring back whatever D holds, and D holds the whole conversation: it read P’s part at the hand-over. That is why pulling matters most when P’s cache is small or shared by many.',
};
