import { askThreeTimes } from './ask.ts';
import { hasThreeTurns, hit } from './conditions.ts';
import type { LessonContent } from './types.ts';

export const pagedKv: LessonContent = {
  text: 'For each token the model keeps a key and a value (KV) in every layer. KV is stored in blocks of equal size: 16 tokens, unless you set another size. A block can be anywhere in the engine’s pool, and a block table says where. Every full block has a hash of its tokens and of all tokens before them. When another prompt begins with the same tokens, its blocks are found by this hash and are not computed again.',
  tasks: [
    {
      predict: {
        ask: 'Each prompt contains the whole conversation so far. How much of the third prompt will P compute?',
        choices: ['All of it', 'Only what is not in its cache', 'Nothing'],
        cameTrue: () => 1,
      },
      todo: 'Ask three times',
      run: askThreeTimes,
      see: 'After each turn, pale blocks remain in P. They are free to be overwritten, but until then their hash still finds them. On the next turn, the blocks that P finds get a ring: found, not computed. Point at a block to see its tokens and its hash.',
      look: 'the blocks of P and D',
      happened: (seen) => hasThreeTurns(seen) && hit(seen),
    },
  ],
  question: 'Why is the number of tokens that P finds in its cache always a multiple of the block size?',
  answer:
    'Only full blocks have a hash. The hash of a half-full block would change with every new token, so the tokens of such a block are computed again.',
};
