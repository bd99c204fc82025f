/** The configuration of one engine, built from the user's configuration. Plain data, so it can be sent to a thread. */
import type { ConnectorConfig } from './kv-transfer.ts';

/**
 * What a KV cache group keeps of a sequence: everything, or a sliding window of `window` tokens, the current one included.
 * `filled`: the share of a block that the group's layers use if they are fewer than a block holds. The rest is never read
 * or moved.
 */
export type KvCacheSpec = ({ kind: 'full' } | { kind: 'sliding'; window: number }) & { filled?: number };

export interface CacheConfig {
  /** Tokens a block. vLLM's default: 16. */
  blockSize: number;
  /** Blocks in the pool, the null block included. */
  numBlocks: number;
  enablePrefixCaching: boolean;
  /** Seed of the block hash chain. The same in the whole cluster, so that equal prefixes hash equally everywhere. */
  hashSeed: string;
  kvDtype: 'f16' | 'f32';
  /**
   * One spec per KV cache group. A pool block holds the same number of layers in every group and can serve any group. The
   * engine fills this in from the model that it loads.
   */
  groups: readonly KvCacheSpec[];
  /** Windowed groups keep everything too (vLLM's --disable-hybrid-kv-cache-manager). */
  allFullKv: boolean;
  /** Share of blocks whose lifetimes are reported, 0 to 1 (vLLM's kv_cache_metrics_sample); absent: none. */
  metricsSample?: number;
}

export interface SchedulerConfig {
  /** Most token rows per step. */
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  /** Longest sequence, prompt and output together. */
  maxModelLen: number;
}

/** The configuration of an engine's policy. */
export interface EngineCoreConfig {
  engineId: string;
  /** Side channel address, by which peers find this engine. */
  host: string;
  port: number;
  cache: CacheConfig;
  scheduler: SchedulerConfig;
  /** null: the engine neither sends nor pulls KV. */
  connector: ConnectorConfig | null;
  eosTokenIds: readonly number[];
  /** Token ids are below this; null: any id is valid (no model computes). */
  vocabSize: number | null;
}
