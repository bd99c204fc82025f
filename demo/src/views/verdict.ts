/** What a race showed, as a plain sentence, whoever won. No DOM. */
import { type Compared, outcomeOf, SINGLE_NOISE, within } from '../../../src/measure/outcome.ts';
import type { Race, RaceLane } from '../session/types.ts';
import { ms, times } from './format.ts';

export interface Verdict {
  winner: 'pull' | 'recompute' | 'neither';
  /** Milliseconds that the winner was ahead. */
  marginMs: number;
  sentence: string;
}

/** The ratio of two times, and how far their runs let it be from that. */
export function comparedRuns(
  ratio: number,
  reference: readonly number[],
  candidate: readonly number[],
): Compared {
  if (reference.length < 2 || candidate.length < 2) return within(ratio, SINGLE_NOISE);
  const low = Math.min(...reference) / Math.max(...candidate);
  return { ratio, low, high: Math.max(...reference) / Math.min(...candidate) };
}

const compared = (pull: RaceLane, recompute: RaceLane): Compared =>
  comparedRuns(recompute.ttftMs! / pull.ttftMs!, recompute.runsMs ?? [], pull.runsMs ?? []);

/**
 * Whether it was run since the conversation began, or is about to. Of turns that were recorded one lane is of the conversation
 * before, which was in the other mode.
 */
export function isOfConversation(
  { pull, recompute }: Pick<Race, 'pull' | 'recompute'>,
  beganMs: number,
): boolean {
  const started = [pull, recompute].flatMap(({ startedMs }) => startedMs ?? []);
  return started.length === 0 || Math.max(...started) >= beganMs;
}

/** A lesson's race makes a history of its own, where nothing was asked: it can be run again. */
export const canRace = (race: Race | null, turns: readonly unknown[]): boolean =>
  race !== null || turns.length > 0;

/** null until both have finished. */
export function verdictOf({ pull, recompute }: Pick<Race, 'pull' | 'recompute'>): Verdict | null {
  if (pull.phase !== 'done' || recompute.phase !== 'done') return null;
  if (pull.ttftMs === null || recompute.ttftMs === null) return null;
  const slower = Math.max(pull.ttftMs, recompute.ttftMs);
  const marginMs = Math.abs(recompute.ttftMs - pull.ttftMs);
  const outcome = outcomeOf(compared(pull, recompute));
  if (outcome === 'tie') {
    return {
      winner: 'neither',
      marginMs,
      sentence: `No difference: ${ms(pull.ttftMs)} against ${ms(recompute.ttftMs)}.`,
    };
  }
  const ratio = times(slower / Math.min(pull.ttftMs, recompute.ttftMs));
  return outcome === 'ahead'
    ? {
        winner: 'pull',
        marginMs,
        sentence: `Pulling won by ${ms(marginMs)}: the first token came ${ratio} sooner.`,
      }
    : {
        winner: 'recompute',
        marginMs,
        sentence: `Pulling lost by ${ms(marginMs)}: computing again was ${ratio} faster.`,
      };
}

/** Both must say the same; null while they cannot be compared. */
export function sameAnswer({ pull, recompute }: Pick<Race, 'pull' | 'recompute'>): boolean | null {
  if (pull.phase !== 'done' || recompute.phase !== 'done') return null;
  return pull.answer === recompute.answer;
}
