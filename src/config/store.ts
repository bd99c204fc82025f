/** A store of KV beside the engines: what it keeps, where, and how much of it. Plain data. */

/**
 * What goes when memory is full. s3fifo: AIBrix's variant and parameters; s3fifo-paper: the paper's; lru and arc: vLLM's
 * eviction_policy.
 */
export const EVICTIONS = ['s3fifo', 's3fifo-paper', 'lru', 'arc'] as const;
export type EvictionName = (typeof EVICTIONS)[number];

/**
 * Which blocks go on from memory to what lies below it: all as they come, those that are used again, or those that leave memory
 * (and what is left at the end). AIBrix's names.
 */
export const INGESTIONS = ['ALL', 'HOT', 'EVICTED'] as const;
export type Ingestion = (typeof INGESTIONS)[number];

/** How long who asks waits for what comes up from below memory. SGLang HiCache's names. */
export const PREFETCHES = ['wait_complete', 'timeout', 'best_effort'] as const;
export type Prefetch = (typeof PREFETCHES)[number];

/**
 * Where the store is: in this machine's memory, or across the modelled link, as far from every engine as they are from each
 * other.
 */
export const STORE_PLACES = ['local', 'remote'] as const;

/** The option that keeps KV below a store's memory, where one is given. */
export const keptBy = ({ storeDir }: { storeDir?: string | null }): string =>
  storeDir === null ? '--store-url' : '--store-dir';
