import type { TransferView } from '../session/types.ts';
import { askThreeTimes } from './ask.ts';
import { askedThrice, ended } from './seen.ts';
import type { LessonContent, Seen } from './types.ts';

/** Hand-overs of the conversation's turns that were seen to their end, oldest first. */
function handOvers(seen: Seen): TransferView[] {
  const turns = ended(seen);
  const [first, last] = [turns.at(0), turns.at(-1)];
  if (!first || !last || !askedThrice(seen)) return [];
  return seen.state.transfers.value.filter(
    ({ side, startMs, outcome }) =>
      side === 'decode' && outcome === 'done' && startMs >= first.startMs && startMs <= last.endMs!,
  );
}

const decodes = (seen: Seen): number => new Set(handOvers(seen).map(({ to }) => to)).size;

/** As choices: all of the third turn's prompt was handed over, or less. */
function handedOverAll(seen: Seen): number | null {
  const turn = ended(seen).find((one) => one.turn === 3);
  const blockSize = seen.state.machine.value?.blockSize;
  if (!turn || !blockSize) return null;
  const { result } = turn;
  return result.transfer.p_to_d.blocks >= Math.floor(result.prompt_tokens / blockSize) ? 0 : 1;
}

const choices = ['All of the conversation', 'Only what D does not have yet'] as const;

export const routing: LessonContent = {
  text: 'With two P and two D somebody must choose, turn by turn. Whoever chooses by turns spreads the load evenly and forgets who has what. Whoever keeps a conversation where it is (stickiness) finds its KV there, and may load one engine more than the other.',
  tasks: [
    {
      predict: {
        ask: 'The router takes turns (round-robin): each turn goes to the other D. How much is handed over for the third turn?',
        choices,
        cameTrue: handedOverAll,
      },
      todo: 'Ask three times, by turns',
      run: askThreeTimes,
      see: 'A D that was not there for the last turn must be given what it missed, though P can still pull it from the D that wrote it. P0, P1, D0, D1 beside the names choose which are drawn.',
      look: 'the blocks of P and D',
      happened: (seen) => decodes(seen) > 1,
    },
    {
      predict: {
        ask: 'Now the conversation’s name decides (session-affinity): it stays with one P and one D. How much is handed over for the third turn?',
        choices,
        cameTrue: handedOverAll,
      },
      todo: 'Stay with one D, and ask three times',
      run: async (actions, state) => {
        await actions.begin({ routing: 'session-affinity' });
        await askThreeTimes(actions, state);
      },
      see: 'One D has all of it but what is new. Here that saves copies; with many users it can also make one D the busiest.',
      look: 'the blocks of P and D',
      happened: (seen) => handOvers(seen).length >= 3 && decodes(seen) === 1,
    },
  ],
  question:
    'Ten users talk all day, an eleventh talks as much as all of them. What does stickiness do to the eleventh’s D?',
  answer:
    'It carries half of the load, whatever the other engines do. Policies in the field weigh both: how much of the prompt an engine has, and how busy it is (llm-d’s scorers, Dynamo’s cost, SGLang’s balance threshold). kvferry’s `bench --routing` runs them side by side.',
};
