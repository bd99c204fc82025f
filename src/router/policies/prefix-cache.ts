/**
 * The engine with the longest cached prefix of the prompt, unless it is too busy. AIBrix's `prefix-cache` (not its
 * P/D router):
 * - If requests under way differ by more than `imbalance`, the engine with the fewest.
 * - Otherwise the longest match among engines with at most mean + `deviations` * sigma requests under way (sigma is
 *   the sample deviation); of equal matches the one with fewer requests, then the first.
 * - If nothing matches, the engine with the fewest.
 *
 * AIBrix keeps its own index with blocks of four characters. Here matches come from the engines' KV events, in whole
 * KV blocks.
 */
import { z } from 'zod';
import type { EngineView } from '../plan.ts';
import { definePolicy } from './definition.ts';
import { eachRole } from './each-role.ts';
import { fewest } from './least-request.ts';

export const prefixCache = definePolicy({
  help: 'the engine with the longest cached prefix, unless it is too busy',
  source: "AIBrix's prefix-cache",
  needs: ['cache'],
  parameters: z.strictObject({
    /** AIBRIX_PREFIX_CACHE_POD_RUNNING_REQUEST_IMBALANCE_ABS_COUNT; compared with >. */
    imbalance: z.number().min(0).default(8),
    /** AIBRIX_PREFIX_CACHE_STANDARD_DEVIATION_FACTOR. */
    deviations: z.number().min(0).default(1),
  }),
  create: ({ imbalance, deviations }, { draws }) =>
    eachRole((engines, { promptTokenIds, cachedTokens }, draw) => {
      const counts = engines.map(({ inFlight }) => inFlight);
      const spread = counts.reduce((a, b) => Math.max(a, b)) - counts.reduce((a, b) => Math.min(a, b));
      const length = Math.max(1, promptTokenIds.length);
      const matches = engines.map(({ engineId }) => Math.floor((100 * cachedTokens(engineId)) / length));
      const scored = { scores: matches, best: 'most' } as const;
      if (spread > imbalance) {
        const { engine } = fewest(engines, draw);
        return { engine, why: `counts differ by ${spread}, more than ${imbalance}: the fewest`, ...scored };
      }
      const { mean, deviation } = sampleOf(counts);
      const most = mean + deviations * deviation;
      const best = longestMatch(engines, matches, most);
      if (best === null) {
        const { engine, why } = fewest(engines, draw);
        return { engine, why: `nothing cached: ${why}`, ...scored };
      }
      return { engine: engines[best]!, why: `${matches[best]}% cached`, ...scored };
    }, draws),
});

/**
 * Index of the best match that is not too busy; of equal ones the engine with fewer requests, then the first. null:
 * none.
 */
function longestMatch(engines: readonly EngineView[], matches: readonly number[], most: number) {
  let best: number | null = null;
  for (const [i, match] of matches.entries()) {
    if (match === 0 || engines[i]!.inFlight > most) continue;
    const more = best === null ? match : match - matches[best]!;
    if (more > 0 || (more === 0 && engines[i]!.inFlight < engines[best!]!.inFlight)) best = i;
  }
  return best;
}

/** Mean and sample deviation (n - 1); the deviation of a single value is 0. */
export function sampleOf(values: readonly number[]): { mean: number; deviation: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, deviation: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0 };
}
