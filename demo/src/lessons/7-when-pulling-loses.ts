import { askThreeTimes } from './ask.ts';
import { ended, hasThreeTurns, raced, raceWinner } from './conditions.ts';
import type { LessonContent } from './types.ts';

export const whenPullingLoses: LessonContent = {
  text: 'A copy has fixed costs (the request, waiting for the device, mapping buffers) and a cost per byte. Computing has a cost per token. Over a slow link, or for few tokens, computing again is faster. vLLM decides with a threshold: P pulls only if the pull brings at least that many tokens. The link in this lesson is modelled, and labelled so: it carries 40 kB/s.',
  tasks: [
    {
      predict: {
        ask: 'The link between D and P now carries only 40 kB/s. Which way gives the first token sooner?',
        choices: ['Pulling', 'Computing again', 'No difference'],
        cameTrue: raced,
      },
      todo: 'Race over the slow link',
      run: (actions) => actions.runRace(),
      see: 'The panel shows which way won, and by how much. Over a link this slow pulling loses, unless this computer is just as slow at computing. Time on the modelled link is hatched, here and in the timeline.',
      look: 'the race',
      happened: (seen) => raceWinner(seen) !== null,
    },
    {
      predict: {
        ask: 'A pull must now bring at least 10,000 tokens. What will P do in the third turn?',
        choices: ['Pull anyway', 'Compute, and say why', 'Fail'],
        cameTrue: () => 1,
      },
      todo: 'Set the threshold to 10,000 and ask three times',
      run: async (actions, state) => {
        await actions.configure({ threshold: 10_000 });
        await askThreeTimes(actions, state);
      },
      see: 'Nothing is pulled any more. The line under the answer says why, with both numbers.',
      look: 'the chat',
      happened: (seen) =>
        hasThreeTurns(seen) &&
        ended(seen).some(({ result }) => /threshold/.test(result.no_pull_reason ?? '')),
    },
  ],
  question: 'Without the modelled link, from how many tokens on does pulling win on your machine?',
  answer:
    'Set the link to off in the settings and press Measure. The lines cross at the answer for your machine; other machines have other answers. Then drag the threshold to the left and to the right of the crossing, and see how much time it would lose.',
};
