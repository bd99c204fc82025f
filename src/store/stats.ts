/** A store's statistics. */
import type { CatalogCounters } from './catalog.ts';
import type { LowerTierCounters } from './lower-tiers.ts';
import type { StoreServiceCounters } from './service.ts';

export interface StoreStats {
  /** Capacity in blocks, blocks present, and blocks being read or written. */
  slots: number;
  blocks: number;
  inUse: number;
  /** Bytes of a block of the largest KV cache group. */
  blockBytes: number;
  counters: CatalogCounters & StoreServiceCounters;
  /** null if there is no folder. */
  folder: { blocks: number; bytes: number; counters: FolderCounters } | null;
  /** null if there is no server. `blocks`: known to be there. `resting`: being left alone after a failure. */
  server: { blocks: number; resting: boolean; counters: ServerCounters } | null;
}

export interface FolderCounters extends LowerTierCounters {
  /** Blocks whose TTL had expired. */
  expired: number;
}

export interface ServerCounters extends LowerTierCounters {
  /** How often the server was left alone for a while after a failure. */
  outages: number;
  /** Values under a block's key that are longer than a block, or of another type. They are removed without being read. */
  foreign: number;
}
