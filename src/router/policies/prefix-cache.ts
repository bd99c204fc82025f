/**
 * Where the longest prefix of the prompt is cached, unless that engine is too busy. AIBrix's `prefix-cache` (not its P/D
 * router): requests under way more than `imbalance` apart: the fewest; else by match, then by fewest under way, the first
 * with no more than mean + `deviations` * sigma under way, sigma being the sample's; nothing matches: the fewest. AIBrix
 * keeps an index of its own over four characters a block; here it is what the engines' KV events say, whole KV blocks.
 */
import { z } from 'zod';
import type { EngineView } from '../plan.ts';
import { definePolicy } from './definition.ts';
import { eachRole } from './each-role.ts';
import { fewest } from './least-request.ts';

export const prefixCache = definePolicy({
  help: 'the longest cached prefix, unless too busy',
  source: "AIBrix's prefix-cache",
  looksAt: ['cache'],
  parameters: z.strictObject({
    /** AIBRIX_PREFIX_CACHE_POD_RUNNING_REQUEST_IMBALANCE_ABS_COUNT; strictly more. */
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
        return { engine, why: `counts are ${spread} apart, above ${imbalance}: the fewest`, ...scored };
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

/** Index of the best match that is not too busy; of equals the one with fewer under way, then the first. null: none. */
function longestMatch(engines: readonly EngineView[], matches: readonly number[], most: number) {
  let best: number | null = null;
  for (const [i, match] of matches.entries()) {
    if (match === 0 || engines[i]!.inFlight > most) continue;
    const more = best === null ? match : match - matches[best]!;
    if (more > 0 || (more === 0 && engines[i]!.inFlight < engines[best!]!.inFlight)) best = i;
  }
  return best;
}

/** Mean and sample deviation (n - 1); 0 of a single value. */
export function sampleOf(values: readonly number[]): { mean: number; deviation: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, deviation: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0 };
}
