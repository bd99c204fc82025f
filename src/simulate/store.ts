/**
 * A store in a simulated fleet: the real catalog, service and tiers, which move no bytes and take the time that the
 * costs give.
 */

import { STORE_ADDRESS } from '../config/connectors.ts';
import type { KvCacheSpec } from '../config/engine.ts';
import type { StoreCounters } from '../connector/types.ts';
import { filledBytes } from '../engine/kv-cache-spec.ts';
import type { StoreOptions } from '../fleet/types.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { BlockCatalog, type CatalogCounters } from '../store/catalog.ts';
import { storeOccupancy } from '../store/occupancy.ts';
import { StoreService, type StoreServiceCounters } from '../store/service.ts';
import { slotBytes, slotsIn } from '../store/slots.ts';
import type { RemoteAddress } from '../transport/types.ts';
import type { VirtualClock } from './clock.ts';
import type { SimulationCosts } from './costs/types.ts';
import type { StoreContent } from './live/view.ts';
import { SimulatedTransport, type TransportNet } from './network/transport.ts';
import { SimulatedTiers, type TierOutcome } from './tiers.ts';

export interface SimulatedStoreDeps {
  options: StoreOptions;
  blockSize: number;
  /** Bytes of a KV block in the pool. */
  blockBytes: number;
  groups: readonly KvCacheSpec[];
  net: TransportNet;
  clock: VirtualClock;
  costs: Pick<SimulationCosts, 'store' | 'source'>;
}

/** What a run leaves of its store: plain data, summed over all engines of the run. */
export interface StoreOutcome {
  /** Blocks that there is room for, and those present at the end. */
  slots: number;
  blocks: number;
  /** Bytes of a block of the largest KV cache group. */
  blockBytes: number;
  counters: CatalogCounters & StoreServiceCounters;
  engines: StoreCounters;
  bytesToP: number;
  bytesToD: number;
  /** Tiers below its memory, nearest first. */
  tiers: TierOutcome[];
}

/** Counters since `then`; contents as they are now. */
export const storeSince = (now: StoreOutcome, then: StoreOutcome): StoreOutcome => ({
  ...now,
  counters: less(now.counters, then.counters),
  engines: less(now.engines, then.engines),
  bytesToP: now.bytesToP - then.bytesToP,
  bytesToD: now.bytesToD - then.bytesToD,
  tiers: now.tiers.map((tier, i) => ({ ...tier, counters: less(tier.counters, then.tiers[i]!.counters) })),
});

/** Difference of each counter. */
export const less = <T extends object>(now: T, then: T): T =>
  Object.fromEntries(
    Object.entries(now).map(([key, value]) => [key, value - (then as Record<string, number>)[key]!]),
  ) as T;

/** An engine that may have used the store. */
interface StoreUser {
  role: EngineRole;
  connector: { store?: { counters: Readonly<StoreCounters> } } | null;
}

export class SimulatedStore {
  readonly #catalog: BlockCatalog;
  readonly #service: StoreService;
  readonly #blockBytes: number;
  readonly #tiers: SimulatedTiers;

  /** Throws ConfigError if memory or folder has no room for a block. */
  constructor({ options, blockSize, blockBytes, groups, net, clock, costs }: SimulatedStoreDeps) {
    const bytes = groups.map((spec) => filledBytes(spec, blockBytes));
    const identity = { ...STORE_ADDRESS, compatibilityHash: 'simulated', blockSize, blockBytes: bytes };
    const slots = slotsIn(options.bytes, bytes);
    this.#blockBytes = slotBytes(bytes);
    this.#tiers = new SimulatedTiers({ options, blockBytes: bytes, clock, costs });
    const { lower } = this.#tiers;
    this.#catalog = new BlockCatalog({ slots, eviction: options.eviction, ...lower?.listeners });
    const transport = new SimulatedTransport(identity, net);
    const { prefetch } = options;
    this.#service = new StoreService({ transport, catalog: this.#catalog, clock, lower, prefetch });
  }

  addEngine(address: RemoteAddress): void {
    this.#service.addEngine(address);
  }

  /** Leases of readers that have not read yet, and blocks that are being read or written now. */
  get inUse(): { leases: number; blocks: number } {
    return { leases: this.#service.leases, blocks: this.#catalog.inUse };
  }

  /** Throws InternalError. */
  checkIntegrity(): void {
    this.#catalog.checkIntegrity();
  }

  /** Current contents; the picture of its memory has at most `mostCells` cells. */
  look(mostCells: number): StoreContent {
    const { size, slots, counters } = this.#catalog;
    const { lookups, hits, evicted } = counters;
    const pool = storeOccupancy(slots, this.#catalog.blocks(), mostCells);
    const tiers = this.#tiers.look();
    return { slots, blocks: size, pool, lookups, hits, evicted, tiers };
  }

  outcome(users: readonly StoreUser[]): StoreOutcome {
    const counted = users.flatMap(({ role, connector }) =>
      connector?.store ? [{ role, counters: connector.store.counters }] : [],
    );
    const bytesTo = (role: EngineRole): number =>
      sumOf(counted.filter((one) => one.role === role).map(({ counters }) => counters)).loadedBytes;
    return {
      slots: this.#catalog.slots,
      blocks: this.#catalog.size,
      blockBytes: this.#blockBytes,
      counters: { ...this.#catalog.counters, ...this.#service.counters },
      engines: sumOf(counted.map(({ counters }) => counters)),
      bytesToP: bytesTo('prefill'),
      bytesToD: bytesTo('decode'),
      tiers: this.#tiers.outcome(),
    };
  }
}

function sumOf(all: readonly Readonly<StoreCounters>[]): StoreCounters {
  const total: StoreCounters = {
    ...{ loads: 0, loadedTokens: 0, loadedBytes: 0, failedLoads: 0, offeredBlocks: 0, savedBlocks: 0 },
    ...{ savedBytes: 0, loadMs: 0, saveMs: 0, savingBlockMs: 0, unanswered: 0, twoHopBytes: 0 },
  };
  for (const counters of all)
    for (const key of Object.keys(total) as (keyof StoreCounters)[]) total[key] += counters[key];
  return total;
}
