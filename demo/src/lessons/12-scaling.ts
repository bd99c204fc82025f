import type { SessionActions, Span, TransferView } from '../session/types.ts';
import { ms, plural } from '../views/format.ts';
import { ended } from './seen.ts';
import type { LessonContent, Seen } from './types.ts';

/** Engines that came and went since the lesson began, oldest first. */
const scalings = ({ state, sinceMs }: Seen): Span[] =>
  state.spans.value.filter(({ name, startMs }) => name === 'scale' && startMs >= sinceMs);

const joining = (seen: Seen): Span | undefined => scalings(seen).findLast(({ args }) => args.joined !== '');

/** The last that left; null: none since the last one joined. */
function leaving(seen: Seen): Span | null {
  const last = scalings(seen).at(-1);
  return last && last.args.left !== '' ? last : null;
}

/** What was handed over to an engine that had just joined. */
function firstHandOver(seen: Seen): TransferView | undefined {
  const joined = joining(seen);
  const newcomer = String(joined?.args.joined ?? '').split(' ')[0];
  return seen.state.transfers.value.find(
    ({ to, side, outcome, startMs }) =>
      to === newcomer && side === 'decode' && outcome === 'done' && startMs >= joined!.startMs,
  );
}

/** Turns that were answered to their end after an engine had left. */
function afterwards(seen: Seen) {
  const left = leaving(seen);
  return left ? ended(seen).filter(({ startMs }) => startMs >= left.endMs) : [];
}

const lost = (seen: Seen): number => Number(leaving(seen)?.args.lostTokens ?? 0);
const migrated = (seen: Seen): number => Number(leaving(seen)?.args.migratedTokens ?? 0);

/** Both users asked again, after an engine left. */
const askedAgain = (seen: Seen): boolean =>
  new Set(afterwards(seen).map(({ conversation }) => conversation)).size === 2;

function leftInWords(seen: Seen): string | null {
  const left = leaving(seen);
  if (!left) return null;
  const turns = afterwards(seen).map(
    ({ result }) =>
      `${plural(result.pulled_tokens, 'token')} pulled and ${result.computed_tokens} computed, ${ms(result.ttft_ms)}`,
  );
  return `It left after ${ms(left.endMs - left.startMs)}: KV of ${plural(migrated(seen), 'token')} moved, of ${lost(seen)} lost. Then, user by user: ${turns.join('; ')}.`;
}

async function askTwice(actions: SessionActions): Promise<void> {
  await actions.step();
  await actions.step();
}

/** As choices: all that both had was pulled, or one's was computed. */
function pulledOrComputed(seen: Seen): number | null {
  const turns = afterwards(seen);
  if (turns.length < 2) return null;
  return turns.every(({ result }) => result.pulled_tokens > 0) ? 0 : 1;
}

export const scaling: LessonContent = {
  text: 'Load comes and goes, and engines with it. A new one brings a device, weights and an empty pool: it is slow to come, and knows nobody. One that leaves takes with it what it held for next turns, unless somebody sees to that (draining). Two users talk here, and D is counted up and down.',
  tasks: [
    {
      predict: {
        ask: 'One D answers two users. A second D joins, and gets the next turn of one of them. What must it be given?',
        choices: ['All of that conversation', 'Only what is new in it', 'Nothing: engines share their KV'],
        cameTrue: (seen) => {
          const over = firstHandOver(seen);
          const blockSize = seen.state.machine.value?.blockSize;
          const turn = ended(seen).find(
            ({ startMs, endMs }) => over && startMs <= over.startMs && endMs! >= over.startMs,
          );
          if (!over || !blockSize || !turn) return null;
          return over.pairs.length >= Math.floor(turn.result.prompt_tokens / blockSize) ? 0 : 1;
        },
      },
      todo: 'Ask, add a D, and ask again',
      run: async (actions) => {
        await actions.step();
        await actions.configure({ decode: 2 });
        await actions.step();
      },
      see: 'P pulled from the first D what that had, computed the rest, and handed all of it to the new one. D0 and D1 beside the names choose which is drawn.',
      figures: (seen) => {
        const over = firstHandOver(seen);
        const joined = joining(seen);
        if (!over || !joined) return null;
        return `The new D was ready after ${ms(joined.endMs - joined.startMs)}; its first hand-over was of ${plural(over.pairs.length, 'block')}.`;
      },
      look: 'the blocks of P and D',
      happened: (seen) => firstHandOver(seen) !== undefined && ended(seen).length >= 4,
    },
    {
      predict: {
        ask: 'Both D hold a conversation for its next turn. One D leaves at once, and what it held is dropped. What will P do when that user asks again?',
        choices: ['Pull it from the other D', 'Compute it again', 'Refuse the turn'],
        cameTrue: pulledOrComputed,
      },
      todo: 'Take a D out, and ask again',
      run: async (actions) => {
        await actions.configure({ decode: 1 });
        await actions.step();
      },
      see: 'Nobody was refused, and no word is different: KV that is lost costs time, never an answer.',
      figures: leftInWords,
      look: 'the blocks of P and D',
      happened: (seen) => seen.state.settings.value.drain === 'drop' && lost(seen) > 0 && askedAgain(seen),
    },
    {
      predict: {
        ask: 'The same once more, but what the leaving D holds is taken over by the D that stays (migrate). And now?',
        choices: [
          'Its blocks move to the other D, and P pulls them from there',
          'P computes it again all the same',
          'The user waits until the first D is back',
        ],
        cameTrue: pulledOrComputed,
      },
      todo: 'Two D again: ask twice, move, and ask',
      run: async (actions) => {
        await actions.begin({ decode: 2, drain: 'migrate' });
        await askTwice(actions);
        await actions.configure({ decode: 1 });
        await actions.step();
      },
      see: 'One copy between two D, before anybody asked: the next turn pulls as if nothing had happened.',
      figures: leftInWords,
      look: 'the blocks of P and D',
      happened: (seen) =>
        seen.state.settings.value.drain === 'migrate' && migrated(seen) > 0 && askedAgain(seen),
    },
  ],
  question:
    'There is a third way: the leaving D waits until its holds were read. What speaks for each of the three?',
  answer:
    'Waiting costs nothing but time, and the engine’s price for as long as a user thinks: orchestrators give 30 s. Moving costs one copy for each conversation, also for those that never come back. Dropping is quickest, and P pays for it when the user asks again. kvferry has them as `--drain wait`, `migrate` and `drop`, and `serve --autoscale` decides how many engines there are.',
};
