import { askThreeTimes } from './ask.ts';
import { pulled, raceWinner } from './seen.ts';
import type { Lesson } from './types.ts';

export const pullingBack: Lesson = {
  number: 5,
  title: 'Pulling back from D',
  text: 'In the bidirectional mode D holds its blocks when an answer is done, and says where they are. On the next turn P fetches them the way D fetched P’s. Only what is new is computed. It is the same copy, the other way round.',
  settings: { mode: 'bidirectional' },
  tasks: [
    {
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'Orange blocks go from D back to P before P begins. P then computes little more than the new question.',
      happened: (seen) => pulled(seen),
    },
    {
      todo: 'Race it: the same turn, both ways',
      run: (actions) => actions.runRace(),
      see: 'Both lanes under “The race”, with the winner and the margin. The answers must be the same.',
      happened: (seen) => raceWinner(seen) !== null,
    },
  ],
  question: 'D wrote n tokens. Why can P pull the KV of at most n − 1 of them?',
  answer:
    'The last token was chosen, but never read: its KV would have been made by the next step, and there was none. P computes it with the new question.',
};
