import { storedTokens } from '../../../src/measure/stored-tokens.ts';
import type { StoreView } from '../session/types.ts';
import { bytes, plural } from '../views/format.ts';
import { askThreeTimes } from './ask.ts';
import { askedThrice, ended } from './seen.ts';
import type { LessonContent, Seen } from './types.ts';

const figures = ({ state }: Seen): StoreView['figures'] | null => state.store.value?.figures ?? null;

/** Bytes between the engines themselves, over the turns of the conversation. */
const direct = (seen: Pick<Seen, 'turns'>): number =>
  ended(seen).reduce(
    (sum, { result }) => sum + result.transfer.p_to_d.bytes + result.transfer.d_to_p.bytes,
    0,
  );

const loaded = (seen: Pick<Seen, 'turns'>): number =>
  ended(seen).reduce((sum, { result }) => {
    const { store_to_p, store_to_d } = result.transfer;
    return sum + (store_to_p?.bytes ?? 0) + (store_to_d?.bytes ?? 0);
  }, 0);

const movedInWords = (seen: Seen): string =>
  `Between P and D ${bytes(direct(seen))}, from the store ${bytes(loaded(seen))}, by two hops ${bytes(figures(seen)?.twoHopBytes ?? 0)}.`;

const wayIs = ({ state }: Seen, path: string): boolean =>
  state.settings.value.path === path && state.store.value !== null;

/** The turn after D's hold ran out, once it ended. */
const fourth = (seen: Seen) => ended(seen).find(({ turn }) => turn === 4);

export const storeAndHops: LessonContent = {
  text: 'A store beside the engines keeps KV by what it says: a block’s name is made of its words and of all before them. Whoever asks with the same words gets the KV, whichever engine computed it. So a store could carry everything, from P to D too. But what goes down to it and up again has moved twice.',
  tasks: [
    {
      predict: {
        ask: 'All KV goes through the store now, P’s to D as well. How does what P computes come to D?',
        choices: ['In one hop', 'In two: to the store, and on to D', 'Not at all: D computes it too'],
        cameTrue: (seen) => {
          const hops = figures(seen)?.twoHopBytes ?? 0;
          return hops > 0 ? 1 : direct(seen) > 0 ? 0 : null;
        },
      },
      todo: 'Ask three times, through the store',
      run: askThreeTimes,
      see: 'Violet blocks go down from P and up to D: the same bytes, twice in one turn. P is rid of its blocks at once, and holds nothing for D: that is what the second hop buys.',
      figures: movedInWords,
      look: 'the blocks of P and D',
      happened: (seen) => wayIs(seen, 'store') && askedThrice(seen) && (figures(seen)?.twoHopBytes ?? 0) > 0,
    },
    {
      predict: {
        ask: 'Now each block comes from where it lies: from the store what it had before the turn, from the other engine what is new. How much moves twice?',
        choices: ['As much as before', 'Less', 'Nothing'],
        cameTrue: (seen) => {
          const hops = figures(seen)?.twoHopBytes;
          return hops === undefined ? null : hops === 0 ? 2 : 1;
        },
      },
      todo: 'From where it lies: ask three times',
      run: async (actions, state) => {
        await actions.begin({ path: 'both' });
        await askThreeTimes(actions, state);
      },
      see: 'P hands over to D what it has just computed, and the store gives P what was said before. Each block is saved once, by whichever engine had it first.',
      figures: movedInWords,
      look: 'the blocks of P and D',
      happened: (seen) => wayIs(seen, 'both') && askedThrice(seen) && loaded(seen) > 0,
    },
    {
      predict: {
        ask: 'D’s hold runs out: what P could pull is gone, and P keeps nothing itself. What will P do with the next question?',
        choices: ['Compute all of the history', 'Load the history from the store', 'Wait for D'],
        cameTrue: (seen) => {
          const turn = fourth(seen);
          return turn ? (storedTokens(turn.result) > turn.result.computed_tokens ? 1 : 0) : null;
        },
      },
      todo: 'Let D’s hold run out, and ask again',
      run: async (actions) => {
        await actions.expireHold();
        await actions.step();
      },
      see: 'No engine had to keep anything for this. A store outlives holds and engines; with a folder below it, the page too: choose “Keep KV over a reload” in the settings, ask, and reload.',
      figures: (seen) => {
        const { result } = fourth(seen) ?? {};
        if (!result) return null;
        return `Of ${plural(result.prompt_tokens, 'prompt token')} the store gave ${storedTokens(result)}; P computed ${result.computed_tokens}.`;
      },
      look: 'the blocks of P and D',
      happened: (seen) => wayIs(seen, 'both') && (fourth(seen)?.result.transfer.store_to_p?.bytes ?? 0) > 0,
    },
  ],
  question:
    'A store spares computing, and lets any P take up any conversation. What does it cost, and when is it not worth that?',
  answer:
    'Its memory, a save for every block, and a load for every use: where computing is quicker than copying, or nobody asks with the same words again, all of that is for nothing. vLLM saves prompts alone unless told otherwise (offload_prompt_only): then what D wrote is not in the store. `kvferry bench --paths` measures the ways side by side, at equal device memory.',
};
