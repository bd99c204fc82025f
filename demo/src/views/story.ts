/** The page's headline: what just happened, for a newcomer, with measured values only. No DOM. */
import { STORE_ADDRESS } from '../../../src/config/connectors.ts';
import { storedTokens } from '../../../src/measure/spans/stored-tokens.ts';
import { isConversation } from '../session/conversation/conversation.ts';
import type { Mode, Race, Stall, Status, TransferView, TurnView } from '../session/types.ts';
import { ms, plural, times } from './format.ts';
import { timeAndRate } from './measured.ts';
import { MODES } from './modes.ts';
import { plainly } from './plain-words.ts';
import { isModelled } from './race/stage-names.ts';
import { runsEachWay, sameAnswer, verdictOf } from './race/verdict.ts';
import { stallVerdict } from './stall/stall.ts';

export interface Story {
  /** The headline's colour: the engine or event that it is about. */
  tone: 'plain' | 'p' | 'd' | 'pull' | 'store' | 'bad';
  headline: string;
  detail: string;
}

export interface StoryFacts {
  status: Status;
  mode: Mode;
  turns: readonly TurnView[];
  transfers: readonly TransferView[];
  /** Loads from the store and saves to it. */
  storeTransfers: readonly TransferView[];
  race: Race | null;
  stall: Stall | null;
  /** When the previous conversation ended. */
  beganMs: number;
}

export function tell(given: StoryFacts): Story {
  const facts = { ...given, turns: given.turns.filter(isConversation) };
  const { status, turns } = facts;
  if (status.phase === 'failed')
    return {
      tone: 'bad',
      headline: 'This page cannot continue',
      // What to do comes first: a long reason is cut off here, and the banner has all of it.
      detail: `Press Reset to try again, choose another model in the settings, or reload the page. The reason: ${plainly(status.message).replace(/\.$/, '')}.`,
    };
  const measured = stallStory(facts) ?? raceStory(facts);
  if (measured) return measured;
  const turn = turns.at(-1);
  if (!turn) return opening(facts);
  if (turn.error) return { tone: 'bad', headline: `Turn ${turn.turn} failed`, detail: plainly(turn.error) };
  const ofTurn = ({ startMs, endMs }: TransferView): boolean =>
    (endMs ?? startMs) >= turn.startMs && (turn.endMs === null || startMs <= turn.endMs);
  const own = facts.transfers.filter(ofTurn);
  const pull = own.findLast(({ side }) => side === 'prefill');
  const over = own.findLast(({ side }) => side === 'decode');
  if (turn.endMs !== null) return ended(turn, pull ?? null, facts);
  const load = facts.storeTransfers
    .filter(ofTurn)
    .find(({ to, side }) => to !== STORE_ADDRESS.engineId && side === 'prefill');
  if (load && !over && turn.firstTokenMs === null) return loading(load, pull ?? null);
  return underWay(turn, pull ?? null, over ?? null);
}

function opening({ status, mode, transfers }: StoryFacts): Story {
  if (status.phase === 'starting') {
    return {
      tone: 'plain',
      headline: 'The engines are starting',
      detail: plainly(status.message),
    };
  }
  const { name, about, opening: headline } = MODES[mode];
  // A recording, between two conversations.
  if (status.phase === 'recorded' && transfers.length > 0) {
    return {
      tone: 'plain',
      headline: `Another conversation begins: ${name.toLowerCase()}`,
      detail: `${about}. The last conversation and its KV are gone.`,
    };
  }
  return {
    tone: 'plain',
    headline,
    detail:
      status.phase === 'recorded'
        ? 'A recorded run: watch the KV blocks move.'
        : 'Ask something, or press Play, and watch the KV blocks move.',
  };
}

/** Number of tokens used from the first differing one on: their KV was computed from other words than the prompt's. */
export function wrongTokens({ result, differsAt }: Pick<TurnView, 'result' | 'differsAt'>): number {
  if (!result || differsAt === null || result.pulled_tokens === 0) return 0;
  return Math.max(0, result.local_hit_tokens + result.pulled_tokens - differsAt);
}

/** The engine that computes a turn's prompt. */
export function reader({ mode, turn }: Pick<TurnView, 'mode' | 'turn'>): 'P' | 'D' | 'The engine' {
  if (mode === 'monolithic') return 'The engine';
  return mode === 'decode-local' && turn > 1 ? 'D' : 'P';
}

function underWay(turn: TurnView, pull: TransferView | null, over: TransferView | null): Story {
  if (turn.mode === 'monolithic') {
    return {
      tone: 'plain',
      headline: 'One engine reads and writes',
      detail: 'Nothing is copied in this mode: it is the reference.',
    };
  }
  if (reader(turn) === 'D') {
    return {
      tone: 'd',
      headline:
        turn.firstTokenMs === null
          ? `D reads turn ${turn.turn} alone`
          : 'D writes the answer, token by token',
      detail:
        'From the second turn on, D has the conversation so far. It computes only the new question, and P is idle.',
    };
  }
  if (turn.firstTokenMs !== null) {
    return {
      tone: pull ? 'pull' : 'd',
      headline: pull ? cameBack(pull) : 'D writes the answer, token by token',
      detail: pull
        ? `${pulledDetail(pull)} Now D writes the answer.`
        : 'Each token leaves its KV in D. P does not have that KV, which will matter on the next turn.',
    };
  }
  if (over && over.pairs.length > 0) {
    return {
      tone: 'p',
      headline: `P hands ${plural(over.pairs.length, 'block')} over to D`,
      detail: over.chunks
        ? 'D reads each block as soon as P has computed it.'
        : 'The prompt is computed once. D continues from its KV.',
    };
  }
  if (pull) {
    return {
      tone: 'pull',
      headline:
        pull.endMs === null ? `P pulls ${plural(pull.pairs.length, 'block')} back from D` : cameBack(pull),
      detail:
        'What D wrote last turn is part of this prompt. P copies that KV instead of computing it again.',
    };
  }
  return {
    tone: 'p',
    headline: turn.turn === 1 ? 'P computes the prompt' : `P prepares turn ${turn.turn}`,
    detail:
      turn.turn === 1
        ? 'Prefill computes all prompt tokens at once. Their keys and values fill blocks of P.'
        : 'The prompt is the whole conversation so far, including D’s answers.',
  };
}

function loading(load: TransferView, pull: TransferView | null): Story {
  const blocks = plural(load.pairs.length, 'block');
  return {
    tone: 'store',
    headline: load.endMs === null ? `P loads ${blocks} from the store` : `${blocks} came from the store to P`,
    detail: pull
      ? `The rest comes from D: ${plural(pull.pairs.length, 'block')}.`
      : 'The store finds blocks by the hash of their tokens: a prompt that begins with the same tokens gets their KV.',
  };
}

const cameFromD = (blocks: number): string => `${plural(blocks, 'block')} came back from D to P`;

const cameBack = (pull: TransferView): string =>
  pull.outcome === null || pull.outcome === 'done'
    ? cameFromD(pull.pairs.length)
    : `P asked for ${plural(pull.pairs.length, 'block')} and got none`;

const pulledDetail = (pull: TransferView): string =>
  pull.endMs === null ? '' : copiedIn(pull.endMs - pull.startMs, pull.bytes, pull.throttled);

const copiedIn = (tookMs: number, bytes: number, throttled: boolean): string =>
  `Copied in ${timeAndRate(tookMs, bytes, throttled)}.`;

function ended(view: TurnView, pull: TransferView | null, facts: StoryFacts): Story {
  const { result, turn, mode } = view;
  if (result === null) return { tone: 'plain', headline: `Turn ${turn} ended`, detail: '' };
  const who = reader(view);
  const ttft = `First token after ${ms(result.ttft_ms)}.`;
  const wrong = wrongTokens(view);
  if (wrong > 0) {
    return {
      tone: 'bad',
      headline: `Wrong KV: ${plural(wrong, 'pulled token')} came from words that are not in the prompt`,
      detail: `The history was edited and the token check is off, so P pulled D’s KV of the old words. Compare the answer with the chat. ${ttft}`,
    };
  }
  const stored = storedTokens(result);
  if (stored > 0) {
    const rest = result.pulled_tokens - stored;
    const { ms: took, throttled } = result.transfer.store_to_p!;
    return {
      tone: 'store',
      headline: `${plural(stored, 'token')} came from the store${rest > 0 ? `, ${rest} from D` : ''}: ${who} did not compute them again`,
      detail: `Loaded in ${ms(took)}${throttled ? ' over a modelled link' : ''}. ${who} computed only ${result.computed_tokens} of ${plural(result.prompt_tokens, 'prompt token')}. ${ttft}${compared(view, result.pulled_tokens, facts)}`,
    };
  }
  if (result.pulled_tokens > 0) {
    // A turn from before a reload has no transfer any more, only its report.
    const { blocks, bytes, ms: took, throttled } = result.transfer.d_to_p;
    return {
      tone: 'pull',
      headline: `${pull ? cameBack(pull) : cameFromD(blocks)}: ${plural(result.pulled_tokens, 'token')} that P did not compute again`,
      detail: `${pull ? pulledDetail(pull) : copiedIn(took, bytes, throttled)} P computed only ${result.computed_tokens} of ${plural(result.prompt_tokens, 'prompt token')}. ${ttft}${compared(view, result.pulled_tokens, facts)}`,
    };
  }
  if (turn === 1 && mode === 'monolithic') {
    return {
      tone: 'plain',
      headline: `One engine computed ${plural(result.computed_tokens, 'prompt token')} and wrote ${result.output_tokens}`,
      detail: `${ttft} While it reads a prompt, no other user gets a token from it.`,
    };
  }
  if (turn === 1) {
    return {
      tone: 'd',
      headline: `D wrote ${plural(result.output_tokens, 'token')}. Their KV is in D, and P does not have it`,
      detail: `${ttft} On the next turn this answer is part of the prompt.`,
    };
  }
  const answered = facts.turns.some(
    (other) => other.conversation === view.conversation && other !== view && other.result,
  );
  const why = result.no_pull_reason
    ? ` Nothing was pulled: ${plainly(result.no_pull_reason).replace(/\.$/, '')}.`
    : mode === 'bidirectional'
      ? answered
        ? ' D no longer held KV of this conversation.'
        : ' D had no KV of this conversation yet; on the next turn it will.'
      : '';
  return {
    tone: mode === 'bidirectional' || who === 'The engine' ? 'plain' : who === 'D' ? 'd' : 'p',
    headline: `${who} computed ${plural(result.computed_tokens, 'token')} to answer turn ${turn}`,
    detail: `${ttft}${result.local_hit_tokens > 0 ? ` ${plural(result.local_hit_tokens, 'token')} were in ${who === 'P' ? "P's" : 'its'} own cache.` : ''}${why}`,
  };
}

/** Names a turn of this conversation in which P computed at least as many tokens, with its measured time. */
function compared({ conversation }: TurnView, pulledTokens: number, { turns }: StoryFacts): string {
  const other = turns.findLast(
    ({ result, turn, conversation: its }) =>
      its === conversation &&
      turn > 1 &&
      result &&
      result.pulled_tokens === 0 &&
      result.computed_tokens >= pulledTokens,
  );
  return other?.result
    ? ` Turn ${other.turn} computed ${other.result.computed_tokens} tokens: ${ms(other.result.ttft_ms)}.`
    : '';
}

function stallStory({ stall, race, turns, beganMs }: StoryFacts): Story | null {
  if (!stall || stall.error || stall.startedMs < beganMs) return null;
  const { startedMs } = stall;
  // A later turn or race is the newer story, also a race that only prepares.
  const preparing = race && !race.error ? Number.POSITIVE_INFINITY : 0;
  const racedMs = race?.pull.startedMs ?? race?.recompute.startedMs ?? preparing;
  if (Math.max(turns.at(-1)?.startMs ?? 0, racedMs) > startedMs) return null;
  const verdict = stallVerdict(stall);
  if (!verdict) {
    return {
      tone: 'plain',
      headline: 'One user gets an answer while another pastes a long text',
      detail:
        'Three runs on one engine that does both, three runs on P and D. Which user waits for the other?',
    };
  }
  const tones = { split: 'd', neither: 'plain', alone: 'bad' } as const;
  return { tone: tones[verdict.winner], headline: verdict.headline, detail: verdict.sentence };
}

function raceStory({ race, turns, status, beganMs }: StoryFacts): Story | null {
  if (!race || race.error) return null;
  const last = turns.at(-1);
  const started = race.pull.startedMs ?? race.recompute.startedMs;
  // A turn that began after the race is the newer story, and so is a new conversation.
  if (started !== null && Math.max(last?.startMs ?? beganMs, beganMs) > started) return null;
  const verdict = verdictOf(race);
  const tokens = plural(race.pull.pulledTokens || race.historyTokens, 'token');
  if (!verdict) {
    return {
      tone: 'pull',
      headline: 'What did that save? The same turn, both ways',
      detail: `“${race.question}”: P computes ${race.historyTokens > 0 ? `${plural(race.historyTokens, 'token')} of history` : 'the history'} again, or pulls it back.`,
    };
  }
  const [pull, recompute] = [race.pull.ttftMs!, race.recompute.ttftMs!];
  const modelled = isModelled(race.pull);
  if (verdict.winner === 'pull') {
    return {
      tone: 'pull',
      headline: `Pulling back saved ${ms(verdict.marginMs)}`,
      detail: `Same turn, ${sameAnswer(race) ? 'same answer' : 'but not the same answer'}: first token after ${ms(pull)} with ${tokens} pulled${modelled ? ' over a modelled link' : ''}, ${ms(recompute)} with them computed again (${times(recompute / pull)}).${runsOf(race)}${status.phase === 'recorded' ? '' : ' Your turn: ask about its answers.'}`,
    };
  }
  return {
    tone: 'p',
    headline:
      verdict.winner === 'neither'
        ? 'No clear difference between pulling and computing'
        : `Pulling back cost ${ms(verdict.marginMs)} here`,
    detail: `First token after ${ms(pull)} with ${tokens} pulled, ${ms(recompute)} with them computed again.${runsOf(race)} ${modelled ? 'Over this modelled link' : 'On this machine'}, at this length, ${verdict.winner === 'neither' ? 'these runs show neither to be faster' : 'copying is slower'}.`,
  };
}

/** Says that the times are medians, if there was more than one run. */
const runsOf = (race: Race): string =>
  runsEachWay(race) > 1 ? ` Medians of ${runsEachWay(race)} runs each way.` : '';
