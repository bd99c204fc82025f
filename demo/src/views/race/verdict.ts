/** The result of a race in a sentence, whichever way won. No DOM. */
import { type Compared, outcomeOf, SINGLE_NOISE, within } from '../../../../src/measure/outcome.ts';
import type { Race, RaceLane } from '../../session/types.ts';
import { ms, times } from '../format.ts';

export interface Verdict {
  winner: 'pull' | 'recompute' | 'neither';
  /** Milliseconds that the winner was ahead. */
  marginMs: number;
  sentence: string;
}

/** The ratio of two times, with the range that their single runs allow. */
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
 * Whether the race started after the conversation began, or has not started yet. In a recording, one lane belongs to the
 * previous conversation, which ran in the other mode; the later lane counts.
 */
export function isOfConversation(
  { pull, recompute }: Pick<Race, 'pull' | 'recompute'>,
  beganMs: number,
): boolean {
  const started = [pull, recompute].flatMap(({ startedMs }) => startedMs ?? []);
  return started.length === 0 || Math.max(...started) >= beganMs;
}

/** A race needs turns, or an earlier race: in a lesson, a race creates its own history. */
export const canRace = (race: Race | null, turns: readonly unknown[]): boolean =>
  race !== null || turns.length > 0;

/** null until both have finished. */
export function verdictOf({ pull, recompute }: Pick<Race, 'pull' | 'recompute'>): Verdict | null {
  if (pull.phase !== 'done' || recompute.phase !== 'done') return null;
  if (pull.ttftMs === null || recompute.ttftMs === null) return null;
  const slower = Math.max(pull.ttftMs, recompute.ttftMs);
  const marginMs = Math.abs(recompute.ttftMs - pull.ttftMs);
  const ratios = compared(pull, recompute);
  const outcome = outcomeOf(ratios);
  if (outcome === 'tie') {
    const overlap = runsEachWay({ pull, recompute }) > 1 && ratios.low! <= 1 && ratios.high! >= 1;
    return {
      winner: 'neither',
      marginMs,
      sentence: `No clear difference: ${ms(pull.ttftMs)} against ${ms(recompute.ttftMs)}.${overlap ? ' The runs overlap.' : ''}`,
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

/** Runs whose median is shown; 1 in a recording of two conversations. */
export const runsEachWay = ({ pull, recompute }: Pick<Race, 'pull' | 'recompute'>): number =>
  Math.min(pull.runsMs?.length ?? 1, recompute.runsMs?.length ?? 1);

/** Whether both ways gave the same answer; null until both have finished. */
export function sameAnswer({ pull, recompute }: Pick<Race, 'pull' | 'recompute'>): boolean | null {
  if (pull.phase !== 'done' || recompute.phase !== 'done') return null;
  return pull.answer === recompute.answer;
}
