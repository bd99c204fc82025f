import { askThreeTimes } from './ask.ts';
import { hasThreeTurns, recomputed } from './conditions.ts';
import type { LessonContent } from './types.ts';

export const whatTurnTwoRecomputes: LessonContent = {
  text: 'A conversation’s next prompt contains the last answer. D wrote that answer, so its KV is in D. P has never seen it. In this lesson P keeps its own blocks between turns (prefix caching is on). Even so, P must compute the whole answer before it can read the new question.',
  tasks: [
    {
      predict: {
        ask: 'The third question has five words. How many tokens will P compute for it?',
        choices: ['About as many as the question has', 'More than the story has', 'None'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times; the second answer is a story',
      run: askThreeTimes,
      see: 'The third question is short, but P computed many tokens for it: those of the story. Compare “computed” under the third answer with the length of the question.',
      look: 'the chat',
      happened: (seen) => hasThreeTurns(seen) && recomputed(seen),
    },
  ],
  question: 'Which engine already has the KV that P computes here, and what happens to that KV?',
  answer:
    'D has it: it computed that KV token by token while it wrote the answer. In this mode D drops it or keeps it for itself, and nothing goes back to P. The longer the answers, the more P computes a second time.',
};
