/** A store in figures. */
import type { CatalogCounters } from './catalog.ts';
import type { LowerTierCounters } from './lower-tiers.ts';
import type { StoreServiceCounters } from './service.ts';

export interface StoreStats {
  /** Blocks that there is room for, those that are there, and those that are read or written now. */
  slots: number;
  blocks: number;
  inUse: number;
  /** Of a block, of the largest KV cache group. */
  blockBytes: number;
  counters: CatalogCounters & StoreServiceCounters;
  /** null: there is none. */
  folder: { blocks: number; bytes: number; counters: FolderCounters } | null;
  /** `blocks`: those of which this store knows that they are there; `resting`: it is not asked now. null: there is none. */
  server: { blocks: number; resting: boolean; counters: ServerCounters } | null;
}

export interface FolderCounters extends LowerTierCounters {
  /** Blocks whose time had come. */
  expired: number;
}

export interface ServerCounters extends LowerTierCounters {
  /** Times that the server was given up for a while. */
  outages: number;
  /** Values under a block's key that are longer than a block, or of another type: they were not read, and removed. */
  foreign: number;
}
