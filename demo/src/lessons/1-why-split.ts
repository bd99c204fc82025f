import { stallVerdict } from '../views/stall.ts';
import { handedOver } from './seen.ts';
import type { LessonContent, Seen } from './types.ts';

/** What the stall that was begun since the lesson began has shown. */
function stallSince({ state, sinceMs }: Seen) {
  const stall = state.stall.value;
  return stall && stall.startedMs >= sinceMs ? stallVerdict(stall) : null;
}

export const whySplit: LessonContent = {
  text: 'Answering has two phases. Prefill reads the whole prompt at once: much arithmetic, few steps. Decode writes one token a step: little arithmetic, many steps. What happens to a user who is being answered while somebody else pastes a long text?',
  tasks: [
    {
      predict: {
        ask: 'One user’s answer is counting. Another pastes about 400 tokens. On one engine, and on P and D: where does the count stop?',
        choices: ['On one engine only', 'On both for as long', 'On neither'],
        cameTrue: (seen) => ({ split: 0, neither: 1, alone: 1 })[stallSince(seen)?.winner ?? 'neither'],
      },
      todo: 'Let two users ask',
      run: (actions) => actions.runStall(),
      see: 'Each mark is a token. One engine reads the paste in a long step or two, and the count waits for them. D knows nothing of the paste until P has read it. Three runs each way: the time is the middle one, and the range stands beside it.',
      look: 'the stall',
      happened: (seen) => stallSince(seen) !== null,
    },
    {
      predict: {
        ask: 'Now one question on P and D. Who has the KV of the prompt when the first word comes?',
        choices: ['P alone', 'D alone', 'Both'],
        cameTrue: () => 2,
      },
      todo: 'Split them, and ask',
      run: async (actions) => {
        await actions.configure({ mode: 'unidirectional' });
        await actions.step();
      },
      see: 'P read, and its blocks were copied over to D, which writes on. That copy is the price of splitting: the rest of the lessons is about it.',
      look: 'the blocks of P and D',
      happened: (seen) => handedOver(seen),
    },
  ],
  question: 'Here P and D share one GPU. Does splitting make an answer come faster on this page?',
  answer:
    'No: they compete for the same GPU, and the hand-over comes on top. What it buys is that nobody waits for another’s prompt. With hardware of its own for each, D is not even slowed down, and each side can have as many machines as its phase needs.',
};
