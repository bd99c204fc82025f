/** What one engine needs to know. Built from the user's configuration; plain data, so that it can travel to a thread. */
import type { ConnectorConfig } from './kv-transfer.ts';

export interface CacheConfig {
  /** Tokens a block. vLLM's default: 16. */
  blockSize: number;
  /** Blocks in the pool, the null block included. */
  numBlocks: number;
  enablePrefixCaching: boolean;
  /** Seed of the hash chain's start: one for the whole cluster, so that equal prefixes hash equally everywhere. */
  hashSeed: string;
  kvDtype: 'f16' | 'f32';
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
}
