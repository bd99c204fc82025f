/**
 * Decides which of two times is ahead, or whether they tie. Every comparison of two times, in text, colours or marks, uses
 * this, so that the same pair is judged the same everywhere.
 */

export type Outcome = 'ahead' | 'behind' | 'tie';

export const TIE = 'no difference';

/** reference / candidate: above 1 the candidate is ahead. The interval is absent if there is none, null if unknown. */
export interface Compared {
  ratio: number;
  low?: number | null;
  high?: number | null;
}

const reads1 = (ratio: number): boolean => ratio.toFixed(2) === '1.00';

/** A tie if the ratio or its inverse would be shown as 1.00x, or if the interval contains 1 or is unknown. */
export function outcomeOf({ ratio, low, high }: Compared): Outcome {
  const unsure =
    low === null || high === null || (low !== undefined && high !== undefined && low <= 1 && high >= 1);
  if (unsure || reads1(ratio) || reads1(1 / ratio)) return 'tie';
  return ratio > 1 ? 'ahead' : 'behind';
}

/** Differences below this share are noise for times measured once or the means of a single run. */
export const SINGLE_NOISE = 0.03;

/** A ratio from one measurement, with this share as its uncertainty (0.03: 3%). */
export const within = (ratio: number, share: number): Compared => ({
  ratio,
  low: ratio * (1 - share),
  high: ratio / (1 - share),
});
