import type { SessionActions, SessionState, TurnReport, TurnView } from '../session/types.ts';
import { bytes, plural, times } from '../views/format.ts';
import { ended } from './seen.ts';
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

/** Blocks that D holds after this turn, by group; null until they are seen, or of a model without groups. */
function heldByGroup(seen: Seen, turn: Ended | undefined): number[] | null {
  if (!turn) return null;
  const counts: number[] = [];
  for (const { state, group, conversation } of seen.state.drawn.decode.value?.blocks.value ?? []) {
    if (state === 'held' && group !== undefined && conversation === turn.conversation)
      counts[group] = (counts[group] ?? 0) + 1;
  }
  const held = Array.from(counts, (count) => count ?? 0);
  const { prompt_tokens, output_tokens } = turn.result;
  // Of an earlier turn's hold the fullest group is shorter. The last token was never read.
  const whole = blocksOf(prompt_tokens + output_tokens - 1, seen);
  return held.length > 1 && Math.max(...held) >= whole ? held : null;
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);

/** As choices: as many blocks of every group as of the fullest, or fewer of some. */
function keptAll(seen: Seen, turn: Ended | undefined): number | null {
  const held = heldByGroup(seen, turn);
  return held && (sum(held) === held.length * Math.max(...held) ? 0 : 1);
}

const heldInWords = (held: readonly number[]): string =>
  `Blocks that D holds, ${held.map((count, group) => `group ${group}: ${count}`).join(', ')}.`;

function savedInWords(held: readonly number[]): string {
  const whole = held.length * Math.max(...held);
  return sum(held) === whole
    ? 'Nothing was saved: each group has as many as the fullest.'
    : `Were each as full as the fullest, that would be ${whole} instead of ${sum(held)}.`;
}

const movedInWords = ({ blocks, bytes: moved }: { blocks: number; bytes: number }): string =>
  `${plural(blocks, 'block')}, ${bytes(moved)}`;

/** The first two turns of the last step, and of this one in another conversation; null when not both were seen. */
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
  if (!runs) return 'There is nothing to compare with: go through the steps before this one first.';
  const [windowed, all] = [movedBy(runs.windowed), movedBy(runs.all)];
  const tokens =
    tokensOf(runs.windowed) === tokensOf(runs.all)
      ? 'The tokens of both answers are the same.'
      : 'The tokens of the answers differ.';
  const ratio =
    windowed.bytes < all.bytes
      ? `${times(all.bytes / windowed.bytes)} as much`
      : 'nothing was saved by the windows';
  const held = heldByGroup(seen, runs.all.at(-1));
  return `Both ways in two turns: ${movedInWords(windowed)} with windows; ${movedInWords(all)} with all kept, ${ratio}. ${tokens}${held ? ` ${heldInWords(held)}` : ''}`;
}

/** As choices: other tokens; the same tokens with more moved; nothing. */
function whatDiffered(seen: Seen): number | null {
  const runs = bothRuns(seen);
  if (!runs) return null;
  if (tokensOf(runs.windowed) !== tokensOf(runs.all)) return 0;
  return movedBy(runs.all).bytes > movedBy(runs.windowed).bytes ? 1 : 2;
}

/** The turn in which P pulled. */
const pulledTurn = (seen: Seen): Ended | undefined =>
  ended(seen).find(({ result }) => result.pulled_tokens > 0);

/** As choices: nothing, less than every block of every group, all. */
function pulledBack(seen: Seen): number | null {
  const turn = pulledTurn(seen);
  const held = heldByGroup(seen, ended(seen).at(-1));
  if (!turn || !held) return null;
  const { transfer, pulled_tokens } = turn.result;
  return transfer.d_to_p.blocks < held.length * blocksOf(pulled_tokens, seen) ? 1 : 2;
}

export const windows: LessonContent = {
  text: 'Some models let most layers see a window of the last tokens only: here five of six layers see 128 tokens, the sixth sees all. Layers that need the same blocks are a cache group, each with a block table of its own. A group with a window of W tokens needs at most its last ⌈W / block size⌉ + 1 blocks. What leaves the window is replaced by the null block in the table, and freed. The weights of this model are random, so its answers are noise: look at the blocks.',
  tasks: [
    {
      predict: {
        ask: 'A question longer than the window goes from P to D. What will D hold after its answer?',
        choices: ['As many blocks of every group', 'Fewer blocks of the groups with a window'],
        cameTrue: (seen) => keptAll(seen, ended(seen).at(-1)),
      },
      todo: 'Ask something longer than the window',
      run: (actions) => actions.ask(LONG),
      see: 'The end of each window, and all of the group without one. Point at blocks: the inspector names the group of each.',
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
        ask: 'D has forgotten what left its windows. What can P pull back for the next question?',
        choices: [
          'Nothing: the start is missing',
          'The end of each window, and all of the full group',
          'Every block of every group',
        ],
        cameTrue: pulledBack,
      },
      todo: 'Ask on',
      run: async (actions, state: SessionState) => {
        if (state.turns.peek().length === 0) await actions.ask(LONG);
        await actions.ask(MORE);
      },
      see: 'P needs of each group only what the next token sees. All of the windows must end at one token: where one group had no KV up to there, nothing could be pulled up to there.',
      figures: (seen) => {
        const turn = pulledTurn(seen);
        if (!turn) return null;
        const { pulled_tokens, transfer } = turn.result;
        const whole = blocksOf(pulled_tokens, seen);
        return `P has the KV of ${plural(pulled_tokens, 'token')} again, from ${movedInWords(transfer.d_to_p)}. These tokens fill ${plural(whole, 'block')} of a group that keeps all.`;
      },
      look: 'the blocks of P and D',
      happened: (seen) =>
        !seen.state.settings.value.allFullKv &&
        pulledTurn(seen) !== undefined &&
        heldByGroup(seen, ended(seen).at(-1)) !== null,
    },
    {
      predict: {
        ask: 'Now every group keeps and moves all its blocks; its layers still see their window alone. What changes in the same two turns?',
        choices: ['The answers', 'What is moved, not the answers', 'Nothing'],
        cameTrue: whatDiffered,
      },
      todo: 'Keep all KV, and ask both again',
      run: async (actions) => {
        await actions.begin({ allFullKv: true });
        await askBoth(actions);
      },
      see: 'Blocks behind the window are held and copied, and never read.',
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
    'As long as a turn is shorter than the window, no block leaves it. And KV can only be taken up where every group still has its whole window: a prompt that branches off further back finds the full group’s blocks, but the windows before that point are gone, and all is computed again.',
};
