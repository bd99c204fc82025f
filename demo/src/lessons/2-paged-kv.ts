import { askThreeTimes } from './ask.ts';
import { askedThrice, hit } from './seen.ts';
import type { LessonContent } from './types.ts';

export const pagedKv: LessonContent = {
  text: 'For each token the model keeps a key and a value (KV) in every layer. They lie in blocks of the same size (16 tokens, unless you set another), anywhere in the pool, found through a block table. A full block has a name: the hash of its tokens and of all before them. When another prompt begins with the same tokens, its blocks are found by name and not computed again.',
  tasks: [
    {
      predict: {
        ask: 'Each prompt begins with all that was said before. How much of the third one will P compute?',
        choices: ['All of it', 'Only what its cache does not have', 'Nothing'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'In P, pale blocks stay behind after each turn: free, but still found by name. On the next turn they get a ring: found, not computed. Point at one to see its tokens and its hash.',
      look: 'the blocks of P and D',
      happened: (seen) => askedThrice(seen) && hit(seen),
    },
  ],
  question: 'Why is the number of tokens that P finds in its cache always a multiple of the block size?',
  answer:
    'Only full blocks have a name. A block that is half full would get another name with every token, so its tokens are computed again.',
};
