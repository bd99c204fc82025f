/** What one engine needs to know. Built from the user's configuration; plain data, so that it can travel to a thread. */
import type { ConnectorConfig } from './kv-transfer.ts';

/**
 * What of a sequence a KV cache group keeps: all, or what a window of so many tokens sees, the token's own included. `filled`:
 * the share of a block that its layers take where they are fewer than a block holds; the rest is never read or moved.
 */
export type KvCacheSpec = ({ kind: 'full' } | { kind: 'sliding'; window: number }) & { filled?: number };

export interface CacheConfig {
  /** Tokens a block. vLLM's default: 16. */
  blockSize: number;
  /** Blocks in the pool, the null block included. */
  numBlocks: number;
  enablePrefixCaching: boolean;
  /** Seed of the hash chain's start: one for the whole cluster, so that equal prefixes hash equally everywhere. */
  hashSeed: string;
  kvDtype: 'f16' | 'f32';
  /**
   * By KV cache group. A block of the pool holds as many layers in every group, and serves any of them. An engine fills them
   * in from the model that it loads.
   */
  groups: readonly KvCacheSpec[];
  /** Windowed groups keep everything too (vLLM's --disable-hybrid-kv-cache-manager). */
  allFullKv: boolean;
  /** Share of blocks of which it is told how long they stay, 0 to 1 (vLLM's kv_cache_metrics_sample); absent: of none. */
  metricsSample?: number;
}

export interface SchedulerConfig {
  /** Token rows a step computes at most. */
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  /** Longest sequence, prompt and output together. */
  maxModelLen: number;
}

/** What the policy of an engine is built from. */
export interface EngineCoreConfig {
  engineId: string;
  /** Side channel address: the name under which peers find this engine. */
  host: string;
  port: number;
  cache: CacheConfig;
  scheduler: SchedulerConfig;
  /** null: an engine that neither sends nor pulls. */
  connector: ConnectorConfig | null;
  eosTokenIds: readonly number[];
  /** Token ids are below it; null: any is one, where no model computes. */
  vocabSize: number | null;
}
