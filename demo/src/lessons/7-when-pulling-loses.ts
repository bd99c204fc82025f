import { askThreeTimes } from './ask.ts';
import { askedThrice, ended, raced, raceWinner } from './seen.ts';
import type { LessonContent } from './types.ts';

export const whenPullingLoses: LessonContent = {
  text: 'A copy has fixed costs (asking, waiting for the device, mapping buffers) and costs by the byte; computing costs by the token. Over a slow link, or for a few tokens, computing again is the better way. vLLM’s rule is a threshold: pull only if it brings at least so many tokens. This lesson’s link is modelled, and says so: 40 kB/s.',
  tasks: [
    {
      predict: {
        ask: 'The link between D and P carries 40 kB a second now. Which way gives the first token sooner?',
        choices: ['Pulling', 'Computing again', 'No difference'],
        cameTrue: raced,
      },
      todo: 'Race over the slow link',
      run: (actions) => actions.runRace(),
      see: 'Which way won, and by how much: over so slow a link pulling loses, unless this computer computes as slowly. What is hatched, here and in the timeline, is the modelled link.',
      look: 'the race',
      happened: (seen) => raceWinner(seen) !== null,
    },
    {
      predict: {
        ask: 'A pull must now bring at least 10,000 tokens. What will the third turn do?',
        choices: ['Pull all the same', 'Compute, and say why', 'Fail'],
        cameTrue: () => 1,
      },
      todo: 'Set the threshold to 10,000 and ask three times',
      run: async (actions, state) => {
        await actions.configure({ threshold: 10_000 });
        await askThreeTimes(actions, state);
      },
      see: 'Nothing is pulled any more: the account says why, with both numbers.',
      look: 'the chat',
      happened: (seen) =>
        askedThrice(seen) && ended(seen).some(({ result }) => /threshold/.test(result.no_pull_reason ?? '')),
    },
  ],
  question: 'With the link off, from how many tokens on does pulling win on your machine?',
  answer:
    'Set the link to off and press Measure: where the lines cross is your answer, and no other machine’s. Then drag the threshold to the left and to the right of the crossing, and see what it would lose.',
};
