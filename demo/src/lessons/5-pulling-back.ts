import { askThreeTimes } from './ask.ts';
import { hasThreeTurns, pulled, raced, raceWinner } from './conditions.ts';
import type { LessonContent } from './types.ts';

export const pullingBack: LessonContent = {
  text: 'In the bidirectional mode D holds its blocks after an answer, and its response says where they are. On the next turn P pulls these blocks back. This is the same copy as the handover, in the other direction. P then computes only what is new.',
  tasks: [
    {
      predict: {
        ask: 'The second answer is a story that D wrote. For the third question P needs the story’s KV. Where will it come from?',
        choices: ['P computes it', 'P pulls it back from D'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'Orange blocks move from D back to P before P starts to compute. P then computes little more than the new question.',
      look: 'the blocks of P and D',
      happened: (seen) => hasThreeTurns(seen) && pulled(seen),
    },
    {
      predict: {
        ask: 'Now the same turn both ways: P computes the history again, or P pulls it back. Which way gives the first token sooner here?',
        choices: ['Pulling', 'Computing again', 'No difference'],
        cameTrue: raced,
      },
      todo: 'Race it: the same turn, both ways',
      run: (actions) => actions.runRace(),
      see: '“Compute again, or pull back?” shows both times, the winner and the margin. Both answers must be the same.',
      look: 'the race',
      happened: (seen) => raceWinner(seen) !== null,
    },
  ],
  question: 'D wrote n tokens. Why can P pull the KV of at most n − 1 of them?',
  answer:
    'D chose the last token, but never computed its KV: the next step would have done that, and there was none. P computes it together with the new question.',
};
