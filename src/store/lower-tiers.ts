/** What lies below a store's memory, nearest first: which blocks go down when, and how they come up again. */
import type { Ingestion } from '../config/store.ts';
import type { Clock } from '../engine/types.ts';
import type { LowerTier, Raising } from './bring-up.ts';
import type { BlockCatalog, CatalogDeps } from './catalog.ts';
import { partsOf, type StoreKey } from './keys.ts';
import { TierCost } from './tier-cost.ts';
import type { WriteCounters } from './write-queue.ts';

/** Blocks by key, their KV in one part or several. Nothing rejects. */
export interface Tier {
  /** More to write would be left out. */
  readonly isFull: boolean;
  /** Of blocks that are there, as far as is known here. */
  hashes(): Iterable<StoreKey>;
  /** Those of the hashes that are there, or about to be. */
  find(hashes: readonly StoreKey[]): Promise<ReadonlySet<StoreKey>>;
  /** False: it is not there, or was not what it should have been. */
  read(hash: StoreKey, into: readonly Uint8Array[]): Promise<boolean>;
  /** Later; the parts are copied now. No-op for what is there. `parent`: the block before it, if that is there to go by. */
  write(hash: StoreKey, kv: readonly Uint8Array[], parent?: StoreKey | null): void;
  /** As LowerTier has it; absent: what it keeps is its own affair. */
  used?(hashes: readonly StoreKey[]): void;
  /** Resolves when nothing waits to be written. */
  flush(): Promise<void>;
}

export interface LowerTierCounters extends WriteCounters {
  read: number;
  /** Of these blocks' KV. */
  readBytes: number;
  /** Milliseconds of the reads that ended well; those under way at once count each. */
  readMs: number;
  /** Blocks that were found broken, or not to be what they were called, and removed. */
  broken: number;
}

/** Where the bytes of a store's blocks are. */
export interface BlockBytes {
  /** Of a block of the group, not a copy; none where there are none. */
  parts(slot: number, group: number): Uint8Array[];
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
    const down = (ingestion: Ingestion) => (hash: StoreKey, slot: number) =>
      this.#down(ingestion, hash, slot);
    this.listeners = {
      ...(takes('EVICTED') ? { onEvicted: down('EVICTED') } : {}),
      ...(takes('HOT') ? { onHot: down('HOT') } : {}),
    };
  }

  async look(hashes: readonly StoreKey[], worthMs: number | null): Promise<Raising> {
    const places = new Map<StoreKey, (hash: StoreKey, slot: number) => Promise<boolean>>();
    for (const { tier, cost } of this.#tiers) {
      const missing = hashes.filter((hash) => !places.has(hash));
      if (missing.length === 0) break;
      const there = await tier.find(missing);
      if (there.size === 0 || !cost.isWorth(worthMs)) continue;
      const timed = cost.batch();
      const load = (key: StoreKey, slot: number) => timed(() => tier.read(key, this.#bytes(key, slot)));
      for (const hash of there) places.set(hash, load);
    }
    return {
      has: (hash) => places.has(hash),
      load: async (hash, slot) => (await places.get(hash)?.(hash, slot)) ?? false,
    };
  }

  stored(hash: StoreKey, slot: number, parent: StoreKey | null): void {
    this.#down('ALL', hash, slot, parent);
  }

  used(hashes: readonly StoreKey[]): void {
    for (const { tier } of this.#tiers) tier.used?.(hashes);
  }

  /** Resolves when all is written that is to outlive the process. */
  async end(catalog: BlockCatalog): Promise<void> {
    // As if they left memory: what was to stay longest comes last, and stays where not all of it fits.
    const left = [...catalog.ready()];
    for (const { tier, ingestion } of this.#tiers) {
      for (const [hash, slot] of ingestion === 'EVICTED' ? left : []) {
        tier.write(hash, this.#bytes(hash, slot));
        // So many at once as wait at most.
        if (tier.isFull) await tier.flush();
      }
      await tier.flush();
    }
  }

  /** `parent`: not of what leaves memory, which is newer here than what left before it. */
  #down(ingestion: Ingestion, key: StoreKey, slot: number, parent: StoreKey | null = null): void {
    for (const one of this.#tiers)
      if (one.ingestion === ingestion) one.tier.write(key, this.#bytes(key, slot), parent);
  }

  #bytes(key: StoreKey, slot: number): Uint8Array[] {
    return this.#memory.parts(slot, partsOf(key).group);
  }
}
