/**
 * The tiers below a simulated store's memory: the real tier code (src/store) over a modelled folder and server, which
 * keep no bytes and take the time that the costs give. No real folder or network is touched.
 */
import type { Clock } from '../engine/types.ts';
import type { StoreOptions } from '../fleet/types.ts';
import { type BlockFormat, fileBytesOf } from '../store/block-file.ts';
import { FolderTier, type FolderTierOptions } from '../store/folder-tier.ts';
import { partsOf, type StoreKey } from '../store/keys.ts';
import { type LowerTierCounters, LowerTiers } from '../store/lower-tiers.ts';
import { ServerTier, type ServerTierOptions } from '../store/server-tier.ts';
import { slotBytes } from '../store/slots.ts';
import type { VirtualClock } from './clock.ts';
import { type MediumTimes, mediaBelow, tierTimes } from './costs/tiers.ts';
import type { Medium, SimulationCosts } from './costs/types.ts';
import type { LiveTier } from './live/view.ts';
import { QueuedResource } from './resources.ts';

export interface TierOutcome {
  medium: Medium;
  /** Blocks in the tier at the end of the run, as the tier counts them. */
  blocks: number;
  counters: LowerTierCounters & { expired?: number; outages?: number };
}

interface SimulatedTier extends Pick<LiveTier, 'medium' | 'room'> {
  tier: FolderTier | ServerTier;
}

interface TiersDeps {
  options: StoreOptions;
  /** KV bytes of a block, by KV cache group. */
  blockBytes: readonly number[];
  clock: VirtualClock;
  costs: Pick<SimulationCosts, 'store' | 'source'>;
}

const NOTHING = new Uint8Array(0);

/** A block is named by its key alone and has no contents. */
const NAMES_ALONE: BlockFormat = {
  nameOf: ({ key }) => key,
  encode: () => NOTHING,
  decode: () => NOTHING,
};

export class SimulatedTiers {
  /** null: no lower tier is configured. */
  readonly lower: LowerTiers | null;
  readonly #tiers: readonly SimulatedTier[];

  /** Throws ConfigError for a folder that has no room for one block. */
  constructor({ options, blockBytes, clock, costs }: TiersDeps) {
    const bytesOf = (key: StoreKey): number => blockBytes[partsOf(key).group]!;
    const format: BlockFormat = { ...NAMES_ALONE, fileBytes: ({ key }) => fileBytesOf(bytesOf(key)) };
    const largest = slotBytes(blockBytes);
    const below = { namespace: '', blockBytes: largest, clock, onTrouble() {}, format };
    const make = (medium: Medium): SimulatedTier => {
      const timed = new TimedMedium(clock, bytesOf, tierTimes(costs, medium));
      if (medium === 'server') {
        const { ttlMs } = options.server!;
        const tier = new ServerTier({ ...below, server: simulatedServer(timed, clock), ttlMs });
        return { medium, room: null, tier };
      }
      const { bytes: quotaBytes, ttlMs } = options.folder!;
      const tier = new FolderTier({ ...below, folder: simulatedFolder(timed), quotaBytes, ttlMs });
      return { medium, room: Math.floor(quotaBytes / fileBytesOf(largest)), tier };
    };
    this.#tiers = mediaBelow(options).map(make);
    const ordered = this.#tiers.map(({ medium, tier }) => ({ tier, ingestion: options[medium]!.ingestion }));
    this.lower = ordered.length > 0 ? new LowerTiers(ordered, { parts: () => [] }, clock) : null;
  }

  /** Current contents and counters. */
  look(): LiveTier[] {
    return this.#tiers.map(({ medium, tier, room }) => {
      const { read, written, leftOut } = tier.counters;
      return { medium, blocks: tier.blocks, room, read, written, leftOut };
    });
  }

  outcome(): TierOutcome[] {
    return this.#tiers.map(({ medium, tier }) => {
      return { medium, blocks: tier.blocks, counters: { ...tier.counters } };
    });
  }
}

/** Concurrent accesses wait the fixed time together; then their bytes follow one after the other. */
class TimedMedium {
  readonly #clock: VirtualClock;
  readonly #times: MediumTimes;
  readonly #bytesOf: (key: StoreKey) => number;
  readonly #reads: QueuedResource;
  readonly #writes: QueuedResource;

  constructor(clock: VirtualClock, bytesOf: (key: StoreKey) => number, times: MediumTimes) {
    this.#clock = clock;
    this.#times = times;
    this.#bytesOf = bytesOf;
    this.#reads = new QueuedResource(clock, 1 / times.read.msPerByte);
    this.#writes = new QueuedResource(clock, 1 / times.write.msPerByte);
  }

  /** A request whose answer holds no block. */
  ask(): Promise<void> {
    return this.#begin(this.#times.read.fixedMs);
  }

  async read(key: StoreKey): Promise<void> {
    await this.#begin(this.#times.read.fixedMs);
    await this.#move(key, this.#reads);
  }

  async write(key: StoreKey): Promise<void> {
    await this.#begin(this.#times.write.fixedMs);
    await this.#move(key, this.#writes);
  }

  /** Always goes through an event, so that what happens at one moment keeps its order. */
  #begin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.after(ms, resolve);
    });
  }

  #move(key: StoreKey, resource: QueuedResource): Promise<void> {
    return new Promise((resolve) => {
      resource.begin(this.#bytesOf(key), resolve);
    });
  }
}

/** Lists no files: the tier tracks its own contents, and nothing else uses the folder. */
const simulatedFolder = (medium: TimedMedium): FolderTierOptions['folder'] => ({
  location: 'a simulated folder',
  isEmpty: async () => true,
  list: async () => [],
  async read(key) {
    await medium.read(key);
    return NOTHING;
  },
  write: (key) => medium.write(key),
  async remove() {},
});

/** Keeps every block until its TTL is over. */
function simulatedServer(medium: TimedMedium, clock: Pick<Clock, 'now'>): ServerTierOptions['server'] {
  /** Expiry time by key, ms. */
  const expiries = new Map<string, number>();
  const has = (key: string): boolean => {
    const there = clock.now() < (expiries.get(key) ?? Number.NEGATIVE_INFINITY);
    if (!there) expiries.delete(key);
    return there;
  };
  return {
    location: 'a simulated server',
    async has(keys) {
      await medium.ask();
      return keys.map(has);
    },
    async get(key) {
      await medium.read(key);
      return has(key) ? NOTHING : null;
    },
    async set(key, _value, ttlMs) {
      await medium.write(key);
      expiries.set(key, ttlMs === null ? Number.POSITIVE_INFINITY : clock.now() + ttlMs);
      return null;
    },
    async remove(keys) {
      for (const key of keys) expiries.delete(key);
    },
    drop() {},
  };
}
