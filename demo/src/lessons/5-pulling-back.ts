import { askThreeTimes } from './ask.ts';
import { askedThrice, pulled, raced, raceWinner } from './seen.ts';
import type { LessonContent } from './types.ts';

export const pullingBack: LessonContent = {
  text: 'In the bidirectional mode D holds its blocks when an answer is done, and says where they are. On the next turn P fetches them the way D fetched P’s. Only what is new is computed. It is the same copy, the other way round.',
  tasks: [
    {
      predict: {
        ask: 'The second answer is a story that D wrote. For the third question P needs its KV. Where will it come from?',
        choices: ['P computes it', 'Back from D'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'Orange blocks go from D back to P before P begins. P then computes little more than the new question.',
      look: 'the blocks of P and D',
      happened: (seen) => askedThrice(seen) && pulled(seen),
    },
    {
      predict: {
        ask: 'The same turn, once with P computing the history again, once pulling it. Which gives the first token sooner here?',
        choices: ['Pulling', 'Computing again', 'No difference'],
        cameTrue: raced,
      },
      todo: 'Race it: the same turn, both ways',
      run: (actions) => actions.runRace(),
      see: 'Both ways under “Compute again, or pull back?”, with the winner and the margin. The answers must be the same.',
      look: 'the race',
      happened: (seen) => raceWinner(seen) !== null,
    },
  ],
  question: 'D wrote n tokens. Why can P pull the KV of at most n − 1 of them?',
  answer:
    'The last token was chosen, but never read: its KV would have been made by the next step, and there was none. P computes it with the new question.',
};
