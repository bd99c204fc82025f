import { handedOver } from './seen.ts';
import type { LessonContent } from './types.ts';

export const handOver: LessonContent = {
  text: 'P computes the prompt and samples one token. Then D fetches P’s blocks: P’s GPU copies them into memory that both threads share (the slab), and D’s GPU copies them out of it. D is told the block ids and reads when it has room; P holds the blocks for it under a lease, and frees them when D says that it is done.',
  tasks: [
    {
      predict: {
        ask: 'P has read the prompt. What does D fetch?',
        choices: ['The text, and reads it again', 'Every block of the prompt’s KV', 'Only the first token'],
        cameTrue: () => 1,
      },
      todo: 'Ask once',
      run: (actions) => actions.step(),
      see: 'Blue blocks go from P over the slab to D. The middle says how many, how long, how fast. In D they have a cut corner: copied, not computed.',
      look: 'the blocks of P and D',
      happened: (seen) => handedOver(seen),
    },
  ],
  question: 'D has the KV of the whole prompt. Why does it still compute the last prompt token once more?',
  answer:
    'KV is what later tokens look back at; to choose the next token D needs the logits, and these were not copied. Computing the last token gives them. P’s own first token is thrown away, as in vLLM.',
};
