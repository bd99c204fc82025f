import { askThreeTimes } from './ask.ts';
import { askedThrice, recomputed } from './seen.ts';
import type { LessonContent } from './types.ts';

export const whatTurnTwoRecomputes: LessonContent = {
  text: 'A conversation’s next prompt contains the last answer. D wrote that answer, so its KV is in D. P has never seen it. P keeps its own blocks here (prefix caching is on), and still must compute the whole answer before it can read the new question.',
  tasks: [
    {
      predict: {
        ask: 'The third question is five words. How many tokens will P compute for it?',
        choices: ['About as many as the question has', 'More than the story had', 'None'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times; the second answer is a story',
      run: askThreeTimes,
      see: 'The third question is short, but P computes many tokens for it: the story. Compare “computed” under the third answer with the length of its question.',
      look: 'the chat',
      happened: (seen) => askedThrice(seen) && recomputed(seen),
    },
  ],
  question: 'Who already has the KV that P computes here, and what happens to it?',
  answer:
    'D has it: it made that KV token by token while it wrote. In this mode D drops it, or keeps it for itself; nothing ever goes back. The longer the answers, the more P computes twice.',
};
