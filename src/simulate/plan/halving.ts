/** Successive halving: all candidates with few requests, the better half with twice as many, and so on. */
import { type Candidate, distinct } from './candidate.ts';
import type { Outcome, Slo } from './outcome.ts';
import type { Trials } from './trial.ts';

/** A round of the search, for progress messages and for the report. */
export interface Round {
  what: string;
  sample: number;
  candidates: number;
  kept: number;
}

/**
 * Requests of each round, fewest first: an eighth, a quarter, half, and all of `most`; no less than LEAST_SAMPLE if
 * `most` allows.
 */
export const samplesOf = (most: number): number[] => [
  ...new Set([8, 4, 2, 1].map((part) => Math.max(Math.min(LEAST_SAMPLE, most), Math.ceil(most / part)))),
];

/** Fewest requests of a round: fewer say nothing about quantiles. */
const LEAST_SAMPLE = 100;

export interface Halving {
  what: string;
  perSecond: number;
  samples: readonly number[];
  onRound(round: Round): void;
}

/** Returns the candidates that were simulated longest, the best first. */
export async function halve(
  candidates: readonly Candidate[],
  trials: Trials,
  { what, perSecond, samples, onRound }: Halving,
): Promise<Outcome[]> {
  let standing = distinct(candidates);
  // As many rounds as it takes until two are left.
  const rounds = Math.min(samples.length, 1 + Math.ceil(Math.log2(Math.max(1, standing.length / 2))));
  let ranked: Outcome[] = [];
  for (const sample of samples.slice(-rounds)) {
    const outcomes = await trials.runAll(standing.map((candidate) => ({ candidate, perSecond, sample })));
    ranked = outcomes.toSorted((a, b) => byGoodness(a, b, trials.slo));
    const isLast = sample === samples.at(-1);
    const remaining = isLast ? ranked : betterHalf(ranked);
    onRound({ what, sample, candidates: standing.length, kept: isLast ? 1 : remaining.length });
    standing = remaining.map(({ candidate }) => candidate);
  }
  return ranked;
}

/** Splits into P and D that stay to the end, whatever short simulations say. */
const SPLITS_KEPT = 3;

/**
 * The better half, or two. Of each split the best comes first: while a fleet fills, short simulations show what P lacks
 * but not what D lacks. Up to three splits all stay.
 */
function betterHalf(ranked: readonly Outcome[]): Outcome[] {
  const splitOf = ({ candidate: { prefill, decode } }: Outcome): string => `${prefill} ${decode}`;
  const bests = new Set(new Map(ranked.toReversed().map((one) => [splitOf(one), one])).values());
  const ordered = [...ranked.filter((one) => bests.has(one)), ...ranked.filter((one) => !bests.has(one))];
  const least = bests.size <= SPLITS_KEPT ? Math.max(2, bests.size) : 2;
  return ordered.slice(0, Math.max(least, Math.ceil(ranked.length / 2)));
}

/**
 * Orders the best first: fleets that keep the SLO, then by the share of requests that keep it, then by how far within
 * its limits the p90s are.
 */
export function byGoodness(a: Outcome, b: Outcome, slo: Slo): number {
  if (a.met !== b.met) return a.met ? -1 : 1;
  return b.share - a.share || used(a, slo) - used(b, slo);
}

/** The p90s of TTFT and TPOT as shares of their limits, added up. */
function used({ ttftMs, tpotMs }: Outcome, slo: Slo): number {
  const part = (ms: number | undefined, most: number | null): number =>
    most === null || ms === undefined ? 0 : ms / most;
  return part(ttftMs?.p90, slo.ttftMs) + part(tpotMs?.p90, slo.tpotMs);
}
