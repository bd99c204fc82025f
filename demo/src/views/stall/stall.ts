/** Results of the stall: how long the first user waited for a token while the second user's paste was computed. No DOM. */
import { median } from 'simple-statistics';
import { outcomeOf } from '../../../../src/measure/outcome.ts';
import type { Stall, StallRun, StallSide } from '../../session/types.ts';
import { ms, times } from '../format.ts';
import { comparedRuns } from '../race/verdict.ts';
import { type Domain, spanOf } from '../timeline/time-scale.ts';

/** Pauses between the first user's tokens, from the paste to the second user's first token. 0 is the paste. */
export function pausesOf({ tokensMs, pastedFirstMs }: StallRun): Domain[] {
  return tokensMs
    .slice(1)
    .map((endMs, i) => ({ startMs: tokensMs[i]!, endMs }))
    .filter(({ startMs, endMs }) => endMs > 0 && startMs < pastedFirstMs);
}

export const longestOf = (run: StallRun): Domain | null =>
  pausesOf(run).reduce<Domain | null>(
    (best, pause) => (best && spanOf(best) >= spanOf(pause) ? best : pause),
    null,
  );

export interface StallFigures {
  /** Medians of the runs, milliseconds. */
  longestMs: number;
  typicalMs: number;
  pastedFirstMs: number;
  /** Each run's longest pause. */
  longestRunsMs: readonly number[];
  pastedFirstRunsMs: readonly number[];
  /** The run whose longest pause is the median. */
  shown: StallRun;
}

/** null until a run has a pause that can be measured. */
export function figuresOf({ runs }: StallSide): StallFigures | null {
  const measured = runs.flatMap((run) => {
    const longest = longestOf(run);
    return longest ? [{ run, longestMs: spanOf(longest), typicalMs: median(pausesOf(run).map(spanOf)) }] : [];
  });
  if (measured.length === 0) return null;
  const byLength = measured.toSorted((a, b) => a.longestMs - b.longestMs);
  const shown = byLength[Math.floor((byLength.length - 1) / 2)]!.run;
  const pastedFirstRunsMs = measured.map(({ run }) => run.pastedFirstMs);
  return {
    longestMs: median(measured.map(({ longestMs }) => longestMs)),
    typicalMs: median(measured.map(({ typicalMs }) => typicalMs)),
    pastedFirstMs: median(pastedFirstRunsMs),
    longestRunsMs: measured.map(({ longestMs }) => longestMs),
    pastedFirstRunsMs,
    shown,
  };
}

export interface StallVerdict {
  winner: 'split' | 'alone' | 'neither';
  headline: string;
  sentence: string;
}

/** null until both sides have finished all their runs. */
export function stallVerdict({ alone, split }: Pick<Stall, 'alone' | 'split'>): StallVerdict | null {
  if (alone.phase !== 'done' || split.phase !== 'done') return null;
  const [one, two] = [figuresOf(alone), figuresOf(split)];
  if (!one || !two) return null;
  const ratio = one.longestMs / two.longestMs;
  const outcome = outcomeOf(comparedRuns(ratio, one.longestRunsMs, two.longestRunsMs));
  const [waited, waitedSplit] = [ms(one.longestMs), ms(two.longestMs)];
  const pasted = outcomeOf(
    comparedRuns(one.pastedFirstMs / two.pastedFirstMs, one.pastedFirstRunsMs, two.pastedFirstRunsMs),
  );
  const price = ` The paste itself got its first token after ${ms(one.pastedFirstMs)} on one engine and after ${ms(two.pastedFirstMs)} on P and D${pasted === 'tie' ? ': no clear difference' : ''}.`;
  if (outcome === 'ahead') {
    return {
      winner: 'split',
      headline: `One engine: ${waited} without a token. P and D: ${waitedSplit}`,
      sentence: `Splitting made the longest pause ${times(ratio)} shorter (medians of ${one.longestRunsMs.length} runs each way).${price}`,
    };
  }
  const why = 'P and D share one GPU here. With a GPU each, they would not wait for each other.';
  if (outcome === 'tie') {
    return {
      winner: 'neither',
      headline: `No clear difference here: pauses of ${waited} and ${waitedSplit}`,
      sentence: `The runs overlap. ${why}${price}`,
    };
  }
  return {
    winner: 'alone',
    headline: `Splitting made it worse here: ${waitedSplit} without a token, against ${waited}`,
    sentence: `${why}${price}`,
  };
}

/** Whether both sides gave the same count; null until both have finished. */
export function sameCount({ alone, split }: Pick<Stall, 'alone' | 'split'>): boolean | null {
  if (alone.phase !== 'done' || split.phase !== 'done') return null;
  return alone.pieces.join('') === split.pieces.join('');
}

/** The time that the shown runs cover, for both sides; 0 is the paste. null before the first run. */
export function stallDomain({ alone, split }: Pick<Stall, 'alone' | 'split'>): Domain | null {
  const shown = [alone, split].flatMap((side) => figuresOf(side)?.shown ?? []);
  if (shown.length === 0) return null;
  const all = shown.flatMap(({ tokensMs, pastedFirstMs }) => [...tokensMs, pastedFirstMs]);
  return { startMs: Math.min(...all), endMs: Math.max(...all) };
}
