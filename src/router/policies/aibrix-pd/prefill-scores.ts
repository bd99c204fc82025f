/** AIBrix's prefill scorers (pkg/plugins/gateway/algorithms/pd/prefill_scorer.go). Pure; the lowest score is best. */
import { sampleOf } from '../prefix-cache.ts';
import type { AibrixPdParameters } from './config.ts';

export interface PrefillFacts {
  engineId: string;
  /** Prefills sent there that have not ended. */
  requests: number;
  /** Percentage of the prompt's leading tokens believed to be cached there: a whole number, 0 to 100. */
  matchPercent: number;
  /** Mean time of its prefills in milliseconds; null before the first. */
  meanPrefillMs: number | null;
}

/** Milliseconds. AIBrix's fit, made for no particular engine. */
export const conductorPrefillMs = (tokens: number): number => 0.001 * tokens ** 1.5 + 5;
const conductorPrefixMs = (tokens: number): number => 0.005 * tokens + 1;
/** Assumed for an engine before its first prefill has ended. */
const MEAN_PREFILL_MS = conductorPrefillMs(512);

/**
 * `most`: requests of the busiest engine, at least 1. With prefix_cache the prefix counts up to 10 and load up to 1,
 * so the cache weighs ten times as much.
 */
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

/** The number of requests above which a P is skipped: mean + factor * sample deviation. */
export function mostRequests(requests: readonly number[], factor: number): number {
  const { mean, deviation } = sampleOf(requests);
  return mean + factor * deviation;
}
