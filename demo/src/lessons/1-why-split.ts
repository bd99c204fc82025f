import { stallVerdict } from '../views/stall/stall.ts';
import { handedOver } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

/** The verdict of a stall that started after the lesson did; null before there is one. */
function stallSince({ state, sinceMs }: Seen) {
  const stall = state.stall.value;
  return stall && stall.startedMs >= sinceMs ? stallVerdict(stall) : null;
}

export const whySplit: LessonContent = {
  text: 'Serving a request has two phases. Prefill reads the whole prompt at once: much arithmetic in few steps. Decode writes one token per step: little arithmetic in many steps. What happens to a user whose answer is being written when somebody else pastes a long text?',
  tasks: [
    {
      predict: {
        ask: 'One user asked the model to count. While it counts, another user pastes about 400 tokens. We try this on one engine that does both, and on a prefill engine (P) with a decode engine (D). Where does the count pause?',
        choices: ['On one engine only', 'On both, and no shorter on P and D', 'On neither'],
        cameTrue: (seen) => ({ split: 0, neither: 1, alone: 1 })[stallSince(seen)?.winner ?? 'neither'],
      },
      todo: 'Let two users ask',
      run: (actions) => actions.runStall(),
      see: 'Each mark is a token. One engine computes the pasted text in one or two long steps, and the count waits for them. With P and D, D gets nothing to do for the pasted text until P has computed it. Each side runs three times: the time shown is the median, with the range next to it.',
      look: 'the stall',
      happened: (seen) => stallSince(seen) !== null,
    },
    {
      predict: {
        ask: 'Attention needs a key and a value (KV) of every earlier token. Now ask one question on P and D. Which engine has the prompt’s KV when the first word of the answer appears?',
        choices: ['P alone', 'D alone', 'Both'],
        cameTrue: () => 2,
      },
      todo: 'Split them, and ask',
      run: async (actions) => {
        await actions.configure({ mode: 'unidirectional' });
        await actions.step();
      },
      see: 'P computed the prompt’s KV. Its blocks of KV were then copied to D, which writes the answer. This copy is the price of splitting, and the other lessons are about it.',
      look: 'the blocks of P and D',
      happened: (seen) => handedOver(seen),
    },
  ],
  question: 'Here P and D share one GPU. Does splitting make an answer arrive sooner on this page?',
  answer:
    'Usually not: P and D compete for the same GPU, and the handover adds a copy. What splitting buys is that an answer does not stop while somebody else’s prompt is computed. When each engine has its own hardware, D is not slowed down at all, and each phase can have as many machines as it needs.',
};
