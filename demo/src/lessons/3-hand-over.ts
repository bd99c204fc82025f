import { handedOver } from './conditions.ts';
import type { LessonContent } from './types.ts';

export const handOver: LessonContent = {
  text: 'P computes the prompt and samples one token. Then D fetches P’s blocks: P’s GPU copies them into memory that both threads share (the slab), and D’s GPU copies them out. D receives the block ids and starts the copy when it has room. Until then P holds the blocks under a lease, a time limit that D keeps extending. P frees them when D reports that it is done.',
  tasks: [
    {
      predict: {
        ask: 'P has computed the prompt. What does D fetch from P?',
        choices: ['The text, to compute it again', 'Every block of the prompt’s KV', 'Only the first token'],
        cameTrue: () => 1,
      },
      todo: 'Ask once',
      run: (actions) => actions.step(),
      see: 'Blue blocks move from P through the slab to D. The text in the middle shows how many, how long it took, and how fast it was. In D these blocks have a cut corner: copied, not computed.',
      look: 'the blocks of P and D',
      happened: (seen) => handedOver(seen),
    },
  ],
  question: 'D has the KV of the whole prompt. Why does it still compute the last prompt token again?',
  answer:
    'KV is what later tokens attend to. To choose the next token D also needs the logits, and these were not copied. Computing the last prompt token produces them. The token that P sampled is discarded, as in vLLM.',
};
