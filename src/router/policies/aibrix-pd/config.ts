/**
 * Parameters of aibrix-pd with AIBrix's defaults. They can be given by name, as AIBrix's environment variables, as
 * its routingConfig, or as a pod's model.aibrix.ai/config with profiles. An unknown scorer name is refused here;
 * AIBrix keeps the default (prefill) or fails the request (decode).
 */
import { z } from 'zod';

const number = (fallback: number) => z.coerce.number().nonnegative().default(fallback);
const PREFILL_SCORES = ['prefix_cache', 'least_request', 'conductor'] as const;
const DECODE_SCORES = ['load_balancing', 'least_request', 'conductor'] as const;

export const aibrixPdSchema = z.strictObject({
  prefillScorePolicy: z.enum(PREFILL_SCORES).default('prefix_cache'),
  decodeScorePolicy: z.enum(DECODE_SCORES).default('load_balancing'),
  /** Outstanding prefills, most minus fewest. Above it the least loaded P is taken. */
  prefillLoadImbalanceMinSpread: number(16),
  /** D's requests, most minus fewest. At or above it the least loaded D is taken. */
  decodeLoadImbalanceMinSpread: number(16),
  /** Tokens per second, most minus least. Above it the D with the lowest throughput is taken. */
  decodeThroughputImbalanceMinSpread: number(2048),
  decodeScoreRatioThreshold: number(1.5),
  decodeLbWeightRunning: number(1),
  decodeLbWeightThroughput: number(1),
  /** A P with more requests than the mean plus this many sample deviations is skipped. */
  prefixCacheStandardDeviationFactor: number(1),
  /** In tokens. AIBrix's blocks are characters unless it has a tokeniser. */
  prefixCacheBlockSize: z.coerce.number().int().positive().default(4),
  prefixCacheBlockNumber: z.coerce.number().int().positive().default(200_000),
  prefixCacheEvictionDurationMins: z.coerce.number().positive().default(20),
  /** own: where this router sent prompts. kv-events: what engines report of their caches. */
  prefixIndex: z.enum(['own', 'kv-events']).default('own'),
});
export type AibrixPdParameters = z.output<typeof aibrixPdSchema>;

const ENVIRONMENT: Readonly<Record<string, keyof AibrixPdParameters>> = {
  AIBRIX_PREFILL_SCORE_POLICY: 'prefillScorePolicy',
  AIBRIX_DECODE_SCORE_POLICY: 'decodeScorePolicy',
  AIBRIX_PREFILL_LOAD_IMBALANCE_MIN_SPREAD: 'prefillLoadImbalanceMinSpread',
  AIBRIX_DECODE_LOAD_IMBALANCE_MIN_SPREAD: 'decodeLoadImbalanceMinSpread',
  AIBRIX_DECODE_THROUGHPUT_IMBALANCE_MIN_SPREAD: 'decodeThroughputImbalanceMinSpread',
  AIBRIX_DECODE_SCORE_RATIO_THRESHOLD: 'decodeScoreRatioThreshold',
  AIBRIX_DECODE_LB_WEIGHT_RUNNING: 'decodeLbWeightRunning',
  AIBRIX_DECODE_LB_WEIGHT_THROUGHPUT: 'decodeLbWeightThroughput',
  AIBRIX_PREFIX_CACHE_STANDARD_DEVIATION_FACTOR: 'prefixCacheStandardDeviationFactor',
  AIBRIX_PREFIX_CACHE_BLOCK_SIZE: 'prefixCacheBlockSize',
  AIBRIX_PREFIX_CACHE_BLOCK_NUMBER: 'prefixCacheBlockNumber',
  AIBRIX_PREFIX_CACHE_EVICTION_DURATION_MINS: 'prefixCacheEvictionDurationMins',
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Converts AIBrix's formats to the schema's. Unknown keys stay, so that the schema's error names them. */
export function fromAibrixShapes(config: unknown): unknown {
  if (!isObject(config)) return config;
  if (isObject(config.profiles)) {
    return fromAibrixShapes(config.profiles[String(config.defaultProfile ?? 'default')] ?? {});
  }
  const { routingStrategy, routingConfig, lockedRoutingStrategy: _, ...rest } = config;
  const here = routingStrategy === undefined || routingStrategy === 'pd' ? {} : { routingStrategy };
  const entries = Object.entries({ ...rest, ...here }).map(([key, value]) => [
    ENVIRONMENT[key] ?? key,
    value,
  ]);
  return { ...Object.fromEntries(entries), ...(isObject(routingConfig) ? routingConfig : {}) };
}
