/** What lies below a store's memory, nearest first: which blocks go down when, and how they come up again. */
import type { Ingestion } from '../config/store.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import type { Clock } from '../engine/types.ts';
import type { BlockCatalog, CatalogDeps } from './catalog.ts';
import type { LowerTier, Raising } from './service.ts';
import { TierCost } from './tier-cost.ts';
import type { WriteCounters } from './write-queue.ts';

/** Blocks by hash, their KV by group. Nothing rejects. */
export interface Tier {
  /** More to write would be left out. */
  readonly isFull: boolean;
  /** Of blocks that are there, as far as is known here. */
  hashes(): Iterable<BlockHash>;
  /** Those of the hashes that are there, or about to be. */
  find(hashes: readonly BlockHash[]): Promise<ReadonlySet<BlockHash>>;
  /** False: it is not there, or was not what it should have been. */
  read(hash: BlockHash, into: readonly Uint8Array[]): Promise<boolean>;
  /** Later; the parts are copied now. No-op for what is there. */
  write(hash: BlockHash, kv: readonly Uint8Array[]): void;
  /** Resolves when nothing waits to be written. */
  flush(): Promise<void>;
}

export interface LowerTierCounters extends WriteCounters {
  read: number;
  /** Milliseconds of the reads that ended well; those under way at once count each. */
  readMs: number;
  /** Blocks that were found broken, or not to be what they were called, and removed. */
  broken: number;
}

/** Where the bytes of a store's blocks are. */
export interface BlockBytes {
  /** Of every group, not a copy; none where there are none. */
  parts(slot: number): Uint8Array[];
}

/** How blocks come to a tier, and what they are there. */
export interface TierStart {
  /** From a block's writing on; null: for good. */
  ttlMs: number | null;
  ingestion: Ingestion;
  /** Of all that must be equal for a block's bytes to mean the same: 64 hex digits. */
  namespace: string;
}

export interface StoreFolderStart extends TierStart {
  directory: string;
  /** Of the whole folder. */
  bytes: number;
}

export interface StoreServerStart extends TierStart {
  /** redis:// or rediss://, perhaps with a password. */
  url: string;
}

export class LowerTiers implements LowerTier {
  /** What the catalog is to tell. */
  readonly listeners: Pick<CatalogDeps, 'onEvicted' | 'onHot'>;
  readonly #tiers: readonly { tier: Tier; ingestion: Ingestion; cost: TierCost }[];
  readonly #memory: BlockBytes;

  constructor(
    tiers: readonly { tier: Tier; ingestion: Ingestion }[],
    memory: BlockBytes,
    clock: Pick<Clock, 'now'>,
  ) {
    this.#tiers = tiers.map((one) => ({ ...one, cost: new TierCost(clock) }));
    this.#memory = memory;
    const takes = (ingestion: Ingestion) => tiers.some((one) => one.ingestion === ingestion);
    const down = (ingestion: Ingestion) => (hash: BlockHash, slot: number) =>
      this.#down(ingestion, hash, slot);
    this.listeners = {
      ...(takes('EVICTED') ? { onEvicted: down('EVICTED') } : {}),
      ...(takes('HOT') ? { onHot: down('HOT') } : {}),
    };
  }

  async look(hashes: readonly BlockHash[], worthMs: number | null): Promise<Raising> {
    const places = new Map<BlockHash, (hash: BlockHash, slot: number) => Promise<boolean>>();
    for (const { tier, cost } of this.#tiers) {
      const missing = hashes.filter((hash) => !places.has(hash));
      if (missing.length === 0) break;
      const there = await tier.find(missing);
      if (there.size === 0 || !cost.isWorth(worthMs)) continue;
      const timed = cost.batch();
      const load = (hash: BlockHash, slot: number) => timed(() => tier.read(hash, this.#memory.parts(slot)));
      for (const hash of there) places.set(hash, load);
    }
    return {
      has: (hash) => places.has(hash),
      load: async (hash, slot) => (await places.get(hash)?.(hash, slot)) ?? false,
    };
  }

  stored(hash: BlockHash, slot: number): void {
    this.#down('ALL', hash, slot);
  }

  /** Resolves when all is written that is to outlive the process. */
  async end(catalog: BlockCatalog): Promise<void> {
    for (const { tier, ingestion } of this.#tiers) {
      for (const [hash, slot] of ingestion === 'EVICTED' ? catalog.ready() : []) {
        tier.write(hash, this.#memory.parts(slot));
        // So many at once as wait at most.
        if (tier.isFull) await tier.flush();
      }
      await tier.flush();
    }
  }

  #down(ingestion: Ingestion, hash: BlockHash, slot: number): void {
    for (const one of this.#tiers)
      if (one.ingestion === ingestion) one.tier.write(hash, this.#memory.parts(slot));
  }
}
