import { sum } from '../../../src/sum.ts';
import type { SessionActions, SessionState, TurnReport, TurnView } from '../session/types.ts';
import { bytes, plural, times } from '../views/format.ts';
import { ended } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

type Ended = TurnView & { result: TurnReport };

/** Longer than the windows. */
const LONG =
  'Once there was a hare who lived beside a river and knew every stone of it by name. '.repeat(3) +
  'What did she know?';
const MORE = 'And then?';

async function askBoth(actions: SessionActions): Promise<void> {
  await actions.ask(LONG);
  await actions.ask(MORE);
}

const blocksOf = (tokens: number, seen: Seen): number =>
  Math.ceil(tokens / (seen.state.machine.value?.blockSize ?? Number.POSITIVE_INFINITY));

/** Blocks that D holds after this turn, by group; null until they are shown, or for a model without groups. */
function heldByGroup(seen: Seen, turn: Ended | undefined): number[] | null {
  if (!turn) return null;
  const counts: number[] = [];
  for (const { state, group, conversation } of seen.state.drawn.decode.value?.blocks.value ?? []) {
    if (state === 'held' && group !== undefined && conversation === turn.conversation)
      counts[group] = (counts[group] ?? 0) + 1;
  }
  const held = Array.from(counts, (count) => count ?? 0);
  const { prompt_tokens, output_tokens } = turn.result;
  // While an earlier turn's hold is still shown, the fullest group is shorter. The last token has no KV.
  const whole = blocksOf(prompt_tokens + output_tokens - 1, seen);
  return held.length > 1 && Math.max(...held) >= whole ? held : null;
}

/** Index of a choice: every group has as many blocks as the fullest, or some have fewer. */
function keptAll(seen: Seen, turn: Ended | undefined): number | null {
  const held = heldByGroup(seen, turn);
  return held && (sum(held) === held.length * Math.max(...held) ? 0 : 1);
}

const heldInWords = (held: readonly number[]): string =>
  `Blocks held by D: ${held.map((count, group) => `${count} in group ${group}`).join(', ')}.`;

function savedInWords(held: readonly number[]): string {
  const whole = held.length * Math.max(...held);
  return sum(held) === whole
    ? 'Nothing was saved: each group has as many blocks as the fullest one.'
    : `If each group had as many as the fullest one, that would be ${whole} blocks instead of ${sum(held)}.`;
}

const movedInWords = ({ blocks, bytes: moved }: { blocks: number; bytes: number }): string =>
  `${plural(blocks, 'block')}, ${bytes(moved)}`;

/** The first two turns of the last step and of this one, each in its own conversation; null unless both have run. */
function bothRuns(seen: Seen): { windowed: Ended[]; all: Ended[] } | null {
  const all = ended(seen).slice(0, 2);
  const windowed = ended({ turns: seen.earlier }).slice(0, 2);
  if (all.length < 2 || windowed.length < 2) return null;
  const same = all.every(({ question }, i) => question === windowed[i]!.question);
  return same && all[0]!.conversation !== windowed[0]!.conversation ? { windowed, all } : null;
}

const tokensOf = (turns: readonly Ended[]): string =>
  JSON.stringify(turns.map(({ result }) => result.output_token_ids));

const movedBy = (turns: readonly Ended[]) => ({
  blocks: sum(turns.map(({ result: { transfer } }) => transfer.p_to_d.blocks + transfer.d_to_p.blocks)),
  bytes: sum(turns.map(({ result: { transfer } }) => transfer.p_to_d.bytes + transfer.d_to_p.bytes)),
});

function comparedInWords(seen: Seen): string | null {
  const runs = bothRuns(seen);
  if (!runs) return 'There is nothing to compare with yet: run the two steps before this one first.';
  const [windowed, all] = [movedBy(runs.windowed), movedBy(runs.all)];
  const tokens =
    tokensOf(runs.windowed) === tokensOf(runs.all)
      ? 'The tokens of both answers are the same.'
      : 'The tokens of the answers differ.';
  const ratio =
    windowed.bytes < all.bytes
      ? `${times(all.bytes / windowed.bytes)} as much`
      : 'so the windows saved nothing';
  const held = heldByGroup(seen, runs.all.at(-1));
  return `Copied in both directions over two turns: ${movedInWords(windowed)} with windows; ${movedInWords(all)} with all KV kept, ${ratio}. ${tokens}${held ? ` ${heldInWords(held)}` : ''}`;
}

/** Index of a choice: other tokens; the same tokens, but more moved; nothing. */
function whatDiffered(seen: Seen): number | null {
  const runs = bothRuns(seen);
  if (!runs) return null;
  if (tokensOf(runs.windowed) !== tokensOf(runs.all)) return 0;
  return movedBy(runs.all).bytes > movedBy(runs.windowed).bytes ? 1 : 2;
}

/** The turn in which P pulled. */
const pulledTurn = (seen: Seen): Ended | undefined =>
  ended(seen).find(({ result }) => result.pulled_tokens > 0);

/** Index of a choice: nothing; less than every block of every group; all. */
function pulledBack(seen: Seen): number | null {
  const turn = pulledTurn(seen);
  const held = heldByGroup(seen, ended(seen).at(-1));
  if (!turn || !held) return null;
  const { transfer, pulled_tokens } = turn.result;
  return transfer.d_to_p.blocks < held.length * blocksOf(pulled_tokens, seen) ? 1 : 2;
}

export const windows: LessonContent = {
  text: 'In some models most layers see only a window of the last tokens. Here five of six layers see 128 tokens, and the sixth sees all. Layers that need the same blocks form a cache group, and each group has its own block table. A group with a window of W tokens needs at most its last ⌈W / block size⌉ + 1 blocks. A block that leaves the window is freed, and the null block takes its place in the table. The weights of this model are random, so its answers are noise: look at the blocks.',
  tasks: [
    {
      predict: {
        ask: 'P hands over a question that is longer than the window. What will D hold after its answer?',
        choices: ['The same number of blocks of every group', 'Fewer blocks of the groups with a window'],
        cameTrue: (seen) => keptAll(seen, ended(seen).at(-1)),
      },
      todo: 'Ask something longer than the window',
      run: (actions) => actions.ask(LONG),
      see: 'D holds the end of each window, and all blocks of the group without one. Point at a block to see which group it belongs to.',
      figures: (seen) => {
        const turn = ended(seen).at(-1);
        const held = heldByGroup(seen, turn);
        return (
          held &&
          `P handed over ${movedInWords(turn!.result.transfer.p_to_d)}. ${heldInWords(held)} ${savedInWords(held)}`
        );
      },
      look: 'the blocks of P and D',
      happened: (seen) =>
        !seen.state.settings.value.allFullKv && heldByGroup(seen, ended(seen).at(-1)) !== null,
    },
    {
      predict: {
        ask: 'D has freed the blocks that left its windows. What can P pull back for the next question?',
        choices: [
          'Nothing: the start is missing',
          'The end of each window, and all of the full group',
          'Every block of every group',
        ],
        cameTrue: pulledBack,
      },
      todo: 'Ask a second question',
      run: async (actions, state: SessionState) => {
        if (state.turns.peek().length === 0) await actions.ask(LONG);
        await actions.ask(MORE);
      },
      see: 'From each group P needs only what the next token sees. All windows must end at the same token: if one group had no KV up to that token, P could not use the other groups’ KV up to it either.',
      figures: (seen) => {
        const turn = pulledTurn(seen);
        if (!turn) return null;
        const { pulled_tokens, transfer } = turn.result;
        const whole = blocksOf(pulled_tokens, seen);
        return `P got the KV of ${plural(pulled_tokens, 'token')} back (${movedInWords(transfer.d_to_p)}). In a group that keeps all of its KV, these tokens fill ${plural(whole, 'block')}.`;
      },
      look: 'the blocks of P and D',
      happened: (seen) =>
        !seen.state.settings.value.allFullKv &&
        pulledTurn(seen) !== undefined &&
        heldByGroup(seen, ended(seen).at(-1)) !== null,
    },
    {
      predict: {
        ask: 'Now every group keeps and moves all its blocks, but its layers still see only their window. What changes in the same two turns?',
        choices: ['The answers', 'How much is moved, not the answers', 'Nothing'],
        cameTrue: whatDiffered,
      },
      todo: 'Keep all KV, and ask both again',
      run: async (actions) => {
        await actions.begin({ allFullKv: true });
        await askBoth(actions);
      },
      see: 'Blocks outside the window are held and copied, but never used.',
      figures: comparedInWords,
      look: 'the blocks of P and D',
      happened: (seen) =>
        seen.state.settings.value.allFullKv &&
        ended(seen).length >= 2 &&
        ended(seen)[0]!.conversation !== seen.earlier[0]?.conversation &&
        heldByGroup(seen, ended(seen).at(-1)) !== null,
    },
  ],
  question: 'When do windows save nothing, and what do they make harder?',
  answer:
    'They save nothing while a turn is shorter than the window, because no block leaves it. They make reuse harder, because KV can be reused only up to a token where every group still has its whole window. If a prompt branches off further back, the full group still has its blocks, but the windows before that point are gone, and everything is computed again.',
};
