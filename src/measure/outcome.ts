/**
 * Which of two times is ahead, and when neither is. Whatever compares two times, in a sentence, a colour or a mark, asks
 * here, so that the same pair reads alike everywhere.
 */

export type Outcome = 'ahead' | 'behind' | 'tie';

export const TIE = 'no difference';

/** reference / candidate, so above 1 the candidate is ahead; its interval where there is to be one: null is not known. */
export interface Compared {
  ratio: number;
  low?: number | null;
  high?: number | null;
}

const reads1 = (ratio: number): boolean => ratio.toFixed(2) === '1.00';

/** A tie is what would be shown as 1.00x, whichever way round, and what no interval tells from 1. */
export function outcomeOf({ ratio, low, high }: Compared): Outcome {
  const unsure =
    low === null || high === null || (low !== undefined && high !== undefined && low <= 1 && high >= 1);
  if (unsure || reads1(ratio) || reads1(1 / ratio)) return 'tie';
  return ratio > 1 ? 'ahead' : 'behind';
}

/** What times measured once, or a single run's means, cannot tell apart. */
export const SINGLE_NOISE = 0.03;

/** For a ratio that one measurement gave, which is no surer than this share (0.03: 3%). */
export const within = (ratio: number, share: number): Compared => ({
  ratio,
  low: ratio * (1 - share),
  high: ratio / (1 - share),
});
