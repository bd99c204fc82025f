import type { SessionActions, Span, TransferView } from '../session/types.ts';
import { ms, plural } from '../views/format.ts';
import { ended } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

/** Engines that joined or left since the lesson began, oldest first. */
const scalings = ({ state, sinceMs }: Seen): Span[] =>
  state.spans.value.filter(({ name, startMs }) => name === 'scale' && startMs >= sinceMs);

const joining = (seen: Seen): Span | undefined => scalings(seen).findLast(({ args }) => args.joined !== '');

/** The last engine that left; null if none left since the last one joined. */
function leaving(seen: Seen): Span | null {
  const last = scalings(seen).at(-1);
  return last && last.args.left !== '' ? last : null;
}

/** The first handover to an engine that had just joined. */
function firstHandOver(seen: Seen): TransferView | undefined {
  const joined = joining(seen);
  const newcomer = String(joined?.args.joined ?? '').split(' ')[0];
  return seen.state.transfers.value.find(
    ({ to, side, outcome, startMs }) =>
      to === newcomer && side === 'decode' && outcome === 'done' && startMs >= joined!.startMs,
  );
}

/** Finished turns that began after an engine had left. */
function afterwards(seen: Seen) {
  const left = leaving(seen);
  return left ? ended(seen).filter(({ startMs }) => startMs >= left.endMs) : [];
}

const lost = (seen: Seen): number => Number(leaving(seen)?.args.lostTokens ?? 0);
const migrated = (seen: Seen): number => Number(leaving(seen)?.args.migratedTokens ?? 0);

/** Both users asked again after an engine had left. */
const askedAgain = (seen: Seen): boolean =>
  new Set(afterwards(seen).map(({ conversation }) => conversation)).size === 2;

function leftInWords(seen: Seen): string | null {
  const left = leaving(seen);
  if (!left) return null;
  const turns = afterwards(seen).map(
    ({ result }) =>
      `${plural(result.pulled_tokens, 'token')} pulled and ${result.computed_tokens} computed, ${ms(result.ttft_ms)}`,
  );
  return `The D left after ${ms(left.endMs - left.startMs)}. KV of ${plural(migrated(seen), 'token')} was moved, of ${lost(seen)} lost. The next turn of each user: ${turns.join('; ')}.`;
}

async function askTwice(actions: SessionActions): Promise<void> {
  await actions.step();
  await actions.step();
}

/** Index of a choice: both users' turns pulled, or at least one did not. */
function pulledOrComputed(seen: Seen): number | null {
  const turns = afterwards(seen);
  if (turns.length < 2) return null;
  return turns.every(({ result }) => result.pulled_tokens > 0) ? 0 : 1;
}

export const scaling: LessonContent = {
  text: 'Load changes, and engines are added and removed with it. A new engine needs a device, weights and an empty pool: it takes time to start, and has no KV. An engine that leaves takes the KV that it holds for next turns with it, unless its holds are drained first. In this lesson two users talk, and the number of D goes up and down.',
  tasks: [
    {
      predict: {
        ask: 'One D answers two users. A second D joins and gets the next turn of one of them. What must the new D be given?',
        choices: ['The whole conversation', 'Only what is new in it', 'Nothing: engines share their KV'],
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
      see: 'P pulled what the first D had, computed the rest, and handed all of it over to the new D. Press D0 or D1 next to the name to choose which one is drawn.',
      figures: (seen) => {
        const over = firstHandOver(seen);
        const joined = joining(seen);
        if (!over || !joined) return null;
        return `The new D was ready after ${ms(joined.endMs - joined.startMs)}. Its first handover had ${plural(over.pairs.length, 'block')}.`;
      },
      look: 'the blocks of P and D',
      happened: (seen) => firstHandOver(seen) !== undefined && ended(seen).length >= 4,
    },
    {
      predict: {
        ask: 'Each D holds one conversation for its next turn. One D leaves at once, and what it held is dropped. What will P do when that user asks again?',
        choices: ['Pull it from the other D', 'Compute it again', 'Refuse the turn'],
        cameTrue: pulledOrComputed,
      },
      todo: 'Remove a D, and ask again',
      run: async (actions, state) => {
        // If the previous step was skipped, or this one is run again, there is no second D that could leave.
        if (state.settings.peek().decode < 2) {
          await actions.begin({ decode: 2, drain: 'drop' });
          await askTwice(actions);
        }
        await actions.configure({ decode: 1 });
        await actions.step();
      },
      see: 'No turn was refused, and no answer changed. Lost KV costs time, never an answer.',
      figures: leftInWords,
      look: 'the blocks of P and D',
      happened: (seen) => seen.state.settings.value.drain === 'drop' && lost(seen) > 0 && askedAgain(seen),
    },
    {
      predict: {
        ask: 'The same again, but the D that stays takes over what the leaving D holds (migrate). What happens now?',
        choices: [
          'Its blocks move to the other D, and P pulls them from there',
          'P computes it again anyway',
          'The user waits until the first D is back',
        ],
        cameTrue: pulledOrComputed,
      },
      todo: 'Two D again: ask twice, migrate, ask',
      run: async (actions) => {
        await actions.begin({ decode: 2, drain: 'migrate' });
        await askTwice(actions);
        await actions.configure({ decode: 1 });
        await actions.step();
      },
      see: 'The blocks were copied once, from D to D, before anybody asked. The next turn pulls as if nothing had happened.',
      figures: leftInWords,
      look: 'the blocks of P and D',
      happened: (seen) =>
        seen.state.settings.value.drain === 'migrate' && migrated(seen) > 0 && askedAgain(seen),
    },
  ],
  question:
    'There is a third way: the leaving D waits until its holds have been read. What speaks for each of the three?',
  answer:
    'Waiting copies nothing, but the engine must be paid for as long as the user thinks; orchestrators allow 30 s. Migrating costs one copy per conversation, even for those that never come back. Dropping is fastest, but P pays for it when the user asks again. In kvferry these are `--drain wait`, `migrate` and `drop`. `serve --autoscale` decides how many engines there are.',
};
