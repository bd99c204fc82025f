/** Choices for the KV store's settings. Plain data. */

/**
 * Eviction policies of store memory. s3fifo: AIBrix's variant and parameters; s3fifo-paper: the paper's; lru and arc:
 * vLLM's eviction_policy.
 */
export const EVICTIONS = ['s3fifo', 's3fifo-paper', 'lru', 'arc'] as const;
export type EvictionName = (typeof EVICTIONS)[number];

/**
 * Which blocks are written from memory to the folder or server: all at once, those that are used again, or those that are
 * evicted from memory (and the rest at the end). AIBrix's names.
 */
export const INGESTIONS = ['ALL', 'HOT', 'EVICTED'] as const;
export type Ingestion = (typeof INGESTIONS)[number];

/** How long a request waits for blocks from the folder or server. SGLang HiCache's names. */
export const PREFETCHES = ['wait_complete', 'timeout', 'best_effort'] as const;
export type Prefetch = (typeof PREFETCHES)[number];

/**
 * Where the store is: in this machine's memory, or across the modelled link, as far from every engine as engines are from
 * each other.
 */
export const STORE_PLACES = ['local', 'remote'] as const;

interface LowerTier {
  storeDir?: string | null;
  storeUrl?: string | null;
}

/** Whether the store has a folder or server, which keeps KV when the store is emptied. */
export const keepsKv = ({ storeDir, storeUrl }: LowerTier): boolean =>
  (storeDir ?? storeUrl ?? null) !== null;

/** The option that names the store's folder or server. */
export const keptBy = ({ storeDir }: LowerTier): string =>
  storeDir === null ? '--store-url' : '--store-dir';
