import { ended, handedOver } from './seen.ts';
import type { Lesson } from './types.ts';

export const whySplit: Lesson = {
  number: 1,
  title: 'Why split prefill from decode',
  text: 'Answering has two phases. Prefill reads the whole prompt at once: much arithmetic, few steps. Decode writes one token a step: little arithmetic, many steps. In one engine a long prompt makes everyone who is being answered wait. Split, an engine P only reads and an engine D only writes.',
  settings: { mode: 'monolithic' },
  tasks: [
    {
      todo: 'Ask one engine that does both',
      run: (actions) => actions.step(),
      see: 'In the timeline, under “whole turn”: one long bar, then many short ones, all on the same engine.',
      happened: (seen) => ended(seen).some(({ mode }) => mode === 'monolithic'),
    },
    {
      todo: 'Split them, and ask again',
      run: async (actions) => {
        await actions.configure({ mode: 'unidirectional' });
        await actions.step();
      },
      see: 'Now the long bar is on P and the short ones are on D. Between them blocks go from P to D.',
      happened: (seen) => handedOver(seen),
    },
  ],
  question: 'Here P and D share one GPU. Does splitting make anything faster on this page?',
  answer:
    'No: they compete for the same GPU, and the hand-over comes on top. With hardware of its own for each, a long prompt no longer holds up those who are being answered, and each side can have as many machines as its phase needs. The page shows the mechanism and its price.',
};
