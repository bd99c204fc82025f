import type { TransferView } from '../session/types.ts';
import { askThreeTimes } from './ask.ts';
import { ended, hasThreeTurns } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

/** Handovers of the conversation's finished turns, oldest first; empty before the third answer. */
function handOvers(seen: Seen): TransferView[] {
  const turns = ended(seen);
  const [first, last] = [turns.at(0), turns.at(-1)];
  if (!first || !last || !hasThreeTurns(seen)) return [];
  return seen.state.transfers.value.filter(
    ({ side, startMs, outcome }) =>
      side === 'decode' && outcome === 'done' && startMs >= first.startMs && startMs <= last.endMs!,
  );
}

const decodes = (seen: Seen): number => new Set(handOvers(seen).map(({ to }) => to)).size;

/** Index of a choice: the third turn's whole prompt was handed over, or less. */
function handedOverAll(seen: Seen): number | null {
  const turn = ended(seen).find((one) => one.turn === 3);
  const blockSize = seen.state.machine.value?.blockSize;
  if (!turn || !blockSize) return null;
  const { result } = turn;
  return result.transfer.p_to_d.blocks >= Math.floor(result.prompt_tokens / blockSize) ? 0 : 1;
}

const choices = ['The whole conversation', 'Only what D does not have yet'] as const;

export const routing: LessonContent = {
  text: 'With two P and two D, a router must choose one of each for every turn. Round-robin takes the engines in turn: the load is even, but the router ignores which engine has which KV. A sticky policy keeps a conversation on the same engines: its KV is there, but one engine may get more load than the other.',
  tasks: [
    {
      predict: {
        ask: 'With round-robin, each turn goes to the other D. How much is handed over for the third turn?',
        choices,
        cameTrue: handedOverAll,
      },
      todo: 'Ask three times, with round-robin',
      run: askThreeTimes,
      see: 'A D that did not serve the last turn must be given what it missed, although P can still pull it from the D that wrote it. Press P0, P1, D0 or D1 next to the names to choose which engines are drawn.',
      look: 'the blocks of P and D',
      happened: (seen) => decodes(seen) > 1,
    },
    {
      predict: {
        ask: 'With session-affinity, the conversation’s id decides, so it stays with one P and one D. How much is handed over for the third turn?',
        choices,
        cameTrue: handedOverAll,
      },
      todo: 'Stay with one D, and ask three times',
      run: async (actions, state) => {
        await actions.begin({ routing: 'session-affinity' });
        await askThreeTimes(actions, state);
      },
      see: 'That D already has everything except what is new. Here this saves copies. With many users it can also make one D the busiest.',
      look: 'the blocks of P and D',
      happened: (seen) => handOvers(seen).length >= 3 && decodes(seen) === 1,
    },
  ],
  question:
    'Ten users talk all day, and an eleventh talks as much as all of them together. What does a sticky policy do to the eleventh user’s D?',
  answer:
    'That D carries at least half of the load, however idle the other engines are. Policies in the field weigh two things: how much of the prompt an engine has, and how busy it is (llm-d’s scorers, Dynamo’s cost, SGLang’s balance threshold). `kvferry bench --routing` compares them side by side.',
};
