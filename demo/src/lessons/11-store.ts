import { storedTokens } from '../../../src/measure/spans/stored-tokens.ts';
import { sumOf } from '../../../src/sum.ts';
import type { StoreView } from '../session/types.ts';
import { bytes, plural } from '../views/format.ts';
import { askThreeTimes } from './ask.ts';
import { ended, hasThreeTurns } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

const figures = ({ state }: Seen): StoreView['figures'] | null => state.store.value?.figures ?? null;

/** Bytes copied directly between P and D, over the turns of the conversation. */
const direct = (seen: Pick<Seen, 'turns'>): number =>
  sumOf(ended(seen), ({ result: { transfer } }) => transfer.p_to_d.bytes + transfer.d_to_p.bytes);

const loaded = (seen: Pick<Seen, 'turns'>): number =>
  sumOf(
    ended(seen),
    ({ result: { transfer } }) => (transfer.store_to_p?.bytes ?? 0) + (transfer.store_to_d?.bytes ?? 0),
  );

const movedInWords = (seen: Seen): string =>
  `Directly between P and D: ${bytes(direct(seen))}. From the store: ${bytes(loaded(seen))}. By two hops: ${bytes(figures(seen)?.twoHopBytes ?? 0)}.`;

const wayIs = ({ state }: Seen, path: string): boolean =>
  state.settings.value.path === path && state.store.value !== null;

/** The turn after D's hold ran out; undefined until it has ended. */
const fourth = (seen: Seen) => ended(seen).find(({ turn }) => turn === 4);

export const storeAndHops: LessonContent = {
  text: 'A store next to the engines keeps KV by content: each block is found by the hash of its tokens and of all tokens before them. An engine that needs the same tokens gets the KV, whichever engine computed it. So a store could carry everything, even from P to D. But KV that goes into the store and out again has been copied twice.',
  tasks: [
    {
      predict: {
        ask: 'Now all KV goes through the store, even from P to D. How does the KV that P computes reach D?',
        choices: ['In one hop', 'In two: to the store, then to D', 'Not at all: D computes it too'],
        cameTrue: (seen) => {
          const hops = figures(seen)?.twoHopBytes ?? 0;
          return hops > 0 ? 1 : direct(seen) > 0 ? 0 : null;
        },
      },
      todo: 'Ask three times, through the store',
      run: askThreeTimes,
      see: 'Violet blocks go down from P and up to D: the same bytes, twice in one turn. P can free its blocks at once and holds nothing for D. That is what the second hop buys.',
      figures: movedInWords,
      look: 'the blocks of P and D',
      happened: (seen) =>
        wayIs(seen, 'store') && hasThreeTurns(seen) && (figures(seen)?.twoHopBytes ?? 0) > 0,
    },
    {
      predict: {
        ask: 'Now each block comes from where it is: old blocks from the store, new ones from the other engine. How much moves twice?',
        choices: ['As much as before', 'Less', 'Nothing'],
        cameTrue: (seen) => {
          const hops = figures(seen)?.twoHopBytes;
          return hops === undefined ? null : hops === 0 ? 2 : 1;
        },
      },
      todo: 'Each block from where it is: ask three times',
      run: async (actions, state) => {
        await actions.begin({ path: 'both' });
        await askThreeTimes(actions, state);
      },
      see: 'P hands over to D what it has just computed, and the store gives P the earlier conversation. Each block is saved once, by the engine that had it first.',
      figures: movedInWords,
      look: 'the blocks of P and D',
      happened: (seen) => wayIs(seen, 'both') && hasThreeTurns(seen) && loaded(seen) > 0,
    },
    {
      predict: {
        ask: 'D’s hold runs out, so P cannot pull from D. P keeps nothing itself. What will P do for the next question?',
        choices: ['Compute the whole history', 'Load the history from the store', 'Wait for D'],
        cameTrue: (seen) => {
          const turn = fourth(seen);
          return turn ? (storedTokens(turn.result) > turn.result.computed_tokens ? 1 : 0) : null;
        },
      },
      todo: 'Let D’s hold run out, and ask again',
      run: async (actions, state) => {
        // If the previous step was skipped, KV takes another path, or no conversation is in the store yet.
        if (state.settings.peek().path !== 'both' || state.turns.peek().length !== 3) {
          await actions.begin({ path: 'both' });
          await askThreeTimes(actions, state);
        }
        await actions.expireHold();
        await actions.step();
      },
      see: 'No engine had to keep anything for this. What a store keeps outlives holds and engines. With a folder below the store it even outlives the page: choose “Keep KV over a reload” in the settings, ask, and reload.',
      figures: (seen) => {
        const { result } = fourth(seen) ?? {};
        if (!result) return null;
        return `Of ${plural(result.prompt_tokens, 'prompt token')}, ${storedTokens(result)} came from the store, and P computed ${result.computed_tokens}.`;
      },
      look: 'the blocks of P and D',
      happened: (seen) => wayIs(seen, 'both') && (fourth(seen)?.result.transfer.store_to_p?.bytes ?? 0) > 0,
    },
  ],
  question:
    'A store saves computing, and lets any P continue any conversation. What does it cost, and when is it not worth that?',
  answer:
    'It costs memory, a save for every block, and a load for every use. All of that is wasted where computing is faster than copying, or where no later prompt begins with the same tokens. By default vLLM saves only prompts (offload_prompt_only), so what D wrote is not in the store. `kvferry bench --paths` compares the ways at equal device memory.',
};
