/** The tiers below a store's memory, nearest first: when blocks are written to them, and how they are read back. */
import type { Ingestion } from '../config/store.ts';
import type { Clock } from '../engine/types.ts';
import type { LowerTier, Raising } from './bring-up.ts';
import type { BlockCatalog, CatalogDeps } from './catalog.ts';
import { partsOf, type StoreKey } from './keys.ts';
import { TierCost } from './tier-cost.ts';
import type { WriteCounters } from './write-queue.ts';

/** A tier: blocks by key, with their KV in one or several parts. No call rejects. */
export interface Tier {
  /** Further writes would be skipped now. */
  readonly isFull: boolean;
  /** Keys of the blocks known to be there. */
  keys(): Iterable<StoreKey>;
  /** Which of the keys are there or queued for writing. */
  find(keys: readonly StoreKey[]): Promise<ReadonlySet<StoreKey>>;
  /** Reads a block into `into`. False if it is not there or fails its checks. */
  read(key: StoreKey, into: readonly Uint8Array[]): Promise<boolean>;
  /** Queues a write; copies the parts now. No-op if the block is there. `parent`: the block before it, if known. */
  write(key: StoreKey, kv: readonly Uint8Array[], parent?: StoreKey | null): void;
  /** See LowerTier. Absent if the tier does its own eviction. */
  used?(keys: readonly StoreKey[]): void;
  /** Resolves when no writes are pending. */
  flush(): Promise<void>;
}

export interface LowerTierCounters extends WriteCounters {
  read: number;
  /** Bytes of these blocks' KV. */
  readBytes: number;
  /** Total time of successful reads, ms. Concurrent ones count separately. */
  readMs: number;
  /** Blocks that failed their checks and were removed, and files that could not be read. */
  broken: number;
}

/** Access to the bytes of a store's blocks. */
export interface BlockBytes {
  /** Views of a block's bytes, not copies. Empty if the store has no bytes (simulated). */
  parts(slot: number, group: number): Uint8Array[];
}

/** Settings common to all tiers. */
export interface TierStart {
  /** How long a block is used after it was written, ms; null: without limit. */
  ttlMs: number | null;
  ingestion: Ingestion;
  /** See namespaceOf: 64 hex digits. */
  namespace: string;
}

export interface StoreFolderStart extends TierStart {
  directory: string;
  /** Limit for the whole folder. */
  bytes: number;
}

export interface StoreServerStart extends TierStart {
  /** redis:// or rediss://, optionally with a password. */
  url: string;
}

export class LowerTiers implements LowerTier {
  /** Listeners for the catalog to call. */
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
    const down = (ingestion: Ingestion) => (key: StoreKey, slot: number) => this.#down(ingestion, key, slot);
    this.listeners = {
      ...(takes('EVICTED') ? { onEvicted: down('EVICTED') } : {}),
      ...(takes('HOT') ? { onHot: down('HOT') } : {}),
    };
  }

  async look(keys: readonly StoreKey[], worthMs: number | null): Promise<Raising> {
    type Load = (key: StoreKey, slot: number) => Promise<boolean>;
    const places = new Map<StoreKey, { isFar: boolean; load: Load }>();
    for (const [below, { tier, cost }] of this.#tiers.entries()) {
      const missing = keys.filter((key) => !places.has(key));
      if (missing.length === 0) break;
      const there = await tier.find(missing);
      if (there.size === 0 || !cost.isWorth(worthMs)) continue;
      const timed = cost.batch();
      const load: Load = (key, slot) => timed(() => tier.read(key, this.#bytes(key, slot)));
      for (const key of there) places.set(key, { isFar: below > 0, load });
    }
    return {
      has: (key) => places.has(key),
      isFar: (key) => places.get(key)?.isFar ?? false,
      load: async (key, slot) => (await places.get(key)?.load(key, slot)) ?? false,
    };
  }

  stored(key: StoreKey, slot: number, parent: StoreKey | null): void {
    this.#down('ALL', key, slot, parent);
  }

  used(keys: readonly StoreKey[]): void {
    for (const { tier } of this.#tiers) tier.used?.(keys);
  }

  /**
   * Writes what was to be written when it leaves memory; resolves when all writes are done. Until then, nothing in memory is
   * evicted.
   */
  async writeRest(catalog: BlockCatalog): Promise<void> {
    // In order of eviction, so that the most valuable blocks come last, and stay if not everything fits.
    const left = [...catalog.ready()];
    const kept = left.map(([key]) => key);
    // Without this, a lookup still under way could replace a block's bytes before they are written under its name.
    catalog.keep(kept);
    try {
      for (const { tier, ingestion } of this.#tiers) {
        for (const [key, slot] of ingestion === 'EVICTED' ? left : []) {
          tier.write(key, this.#bytes(key, slot));
          // Do not exceed the queue.
          if (tier.isFull) await tier.flush();
        }
        await tier.flush();
      }
    } finally {
      catalog.completeLoad(kept);
    }
  }

  /** Writes to the tiers with this ingestion. `parent` is not given for evicted blocks: they go down in order of recency. */
  #down(ingestion: Ingestion, key: StoreKey, slot: number, parent: StoreKey | null = null): void {
    for (const one of this.#tiers)
      if (one.ingestion === ingestion) one.tier.write(key, this.#bytes(key, slot), parent);
  }

  #bytes(key: StoreKey, slot: number): Uint8Array[] {
    return this.#memory.parts(slot, partsOf(key).group);
  }
}
