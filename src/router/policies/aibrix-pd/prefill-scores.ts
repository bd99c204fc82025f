/** AIBrix's prefill scorers (pkg/plugins/gateway/algorithms/pd/prefill_scorer.go): pure, least is best. */
import type { AibrixPdParameters } from './config.ts';

export interface PrefillFacts {
  engineId: string;
  /** Prefills sent there that have not come back. */
  requests: number;
  /** 0..100, a whole number: leading tokens of the prompt that are believed to be cached there. */
  matchPercent: number;
  /** Mean of its prefills; null before the first. */
  meanPrefillMs: number | null;
}

/** Milliseconds, fitted by AIBrix for no engine in particular. */
export const conductorPrefillMs = (tokens: number): number => 0.001 * tokens ** 1.5 + 5;
const conductorPrefixMs = (tokens: number): number => 0.005 * tokens + 1;
/** What a prefill takes where none was seen yet. */
const MEAN_PREFILL_MS = conductorPrefillMs(512);

/** `most`: requests of the busiest, 1 at least. The prefix counts up to 10, load up to 1: the cache wins ten to one. */
export function prefillScore(
  policy: AibrixPdParameters['prefillScorePolicy'],
  { requests, matchPercent, meanPrefillMs }: PrefillFacts,
  most: number,
  promptTokens: number,
): number {
  switch (policy) {
    case 'prefix_cache':
      return (100 - matchPercent) * 0.1 + requests / most;
    case 'least_request':
      return requests;
    case 'conductor': {
      const matched = (promptTokens * matchPercent) / 100;
      const unmatched = promptTokens - matched;
      return (
        requests * (meanPrefillMs ?? MEAN_PREFILL_MS) +
        (matched > 0 ? conductorPrefixMs(matched) : 0) +
        (unmatched > 0 ? conductorPrefillMs(unmatched) : 0)
      );
    }
  }
}

/** Requests above which a P is passed over: mean + factor * sample deviation (n - 1; 0 of one). */
export function mostRequests(requests: readonly number[], factor: number): number {
  const n = requests.length;
  const mean = requests.reduce((sum, r) => sum + r, 0) / n;
  if (n < 2) return mean;
  const variance = requests.reduce((sum, r) => sum + (r - mean) ** 2, 0) / (n - 1);
  return mean + factor * Math.sqrt(variance);
}
