/**
 * What lies below a simulated store's memory: the real tiers (src/store), over a disk and a server that keep no bytes and take
 * the time that costs say. Nothing of a folder or a network is touched.
 */
import type { Clock } from '../engine/types.ts';
import type { StoreOptions } from '../fleet/types.ts';
import { type BlockFormat, fileBytesOf } from '../store/block-file.ts';
import { FolderTier, type FolderTierOptions } from '../store/folder-tier.ts';
import { type LowerTierCounters, LowerTiers } from '../store/lower-tiers.ts';
import { ServerTier, type ServerTierOptions } from '../store/server-tier.ts';
import type { VirtualClock } from './clock.ts';
import { type MediumTimes, mediaBelow, tierTimes } from './costs/tiers.ts';
import type { Medium, SimulationCosts } from './costs/types.ts';
import type { LiveTier } from './live/look.ts';
import { QueuedResource } from './resources.ts';

export interface TierOutcome {
  medium: Medium;
  /** That are there in the end, as far as the store knows. */
  blocks: number;
  counters: LowerTierCounters & { expired?: number; outages?: number };
}

interface SimulatedTier extends Pick<LiveTier, 'medium' | 'room'> {
  tier: FolderTier | ServerTier;
}

interface TiersDeps {
  options: StoreOptions;
  /** Of KV, a block. */
  blockBytes: number;
  clock: VirtualClock;
  costs: Pick<SimulationCosts, 'store' | 'source'>;
}

const NOTHING = new Uint8Array(0);

/** A block is its hash alone. */
const NAMES_ALONE: BlockFormat = {
  nameOf: ({ hash }) => hash,
  encode: () => NOTHING,
  decode: () => NOTHING,
};

export class SimulatedTiers {
  /** null: there is none. */
  readonly lower: LowerTiers | null;
  readonly #tiers: readonly SimulatedTier[];

  /** Throws ConfigError for a folder that has no room for a block. */
  constructor({ options, blockBytes, clock, costs }: TiersDeps) {
    const format = { ...NAMES_ALONE, fileBytes: () => fileBytesOf(blockBytes) };
    const below = { namespace: '', blockBytes, clock, onTrouble() {}, format };
    const make = (medium: Medium): SimulatedTier => {
      const timed = new TimedMedium(clock, blockBytes, tierTimes(costs, medium));
      if (medium === 'server') {
        const { ttlMs } = options.server!;
        const tier = new ServerTier({ ...below, server: simulatedServer(timed, clock), ttlMs });
        return { medium, room: null, tier };
      }
      const { bytes: quotaBytes, ttlMs } = options.folder!;
      const tier = new FolderTier({ ...below, folder: simulatedFolder(timed), quotaBytes, ttlMs });
      return { medium, room: Math.floor(quotaBytes / fileBytesOf(blockBytes)), tier };
    };
    this.#tiers = mediaBelow(options).map(make);
    const ordered = this.#tiers.map(({ medium, tier }) => ({ tier, ingestion: options[medium]!.ingestion }));
    this.lower = ordered.length > 0 ? new LowerTiers(ordered, { parts: () => [] }, clock) : null;
  }

  /** As they are now. */
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

/** Each access waits for its beginning, all at once; their bytes then come one after the other. */
class TimedMedium {
  readonly #clock: VirtualClock;
  readonly #times: MediumTimes;
  readonly #blockBytes: number;
  readonly #reads: QueuedResource;
  readonly #writes: QueuedResource;

  constructor(clock: VirtualClock, blockBytes: number, times: MediumTimes) {
    this.#clock = clock;
    this.#times = times;
    this.#blockBytes = blockBytes;
    this.#reads = new QueuedResource(clock, 1 / times.read.msPerByte);
    this.#writes = new QueuedResource(clock, 1 / times.write.msPerByte);
  }

  /** Of a question without a block in its answer. */
  ask(): Promise<void> {
    return this.#begin(this.#times.read.fixedMs);
  }

  async read(): Promise<void> {
    await this.#begin(this.#times.read.fixedMs);
    await this.#move(this.#reads);
  }

  async write(): Promise<void> {
    await this.#begin(this.#times.write.fixedMs);
    await this.#move(this.#writes);
  }

  /** Always over an event, so that what happens at one moment keeps its order. */
  #begin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.after(ms, resolve);
    });
  }

  #move(resource: QueuedResource): Promise<void> {
    return new Promise((resolve) => {
      resource.begin(this.#blockBytes, resolve);
    });
  }
}

/** The tier knows what is in it: nobody else uses it. */
const simulatedFolder = (medium: TimedMedium): FolderTierOptions['folder'] => ({
  location: 'a simulated folder',
  isEmpty: async () => true,
  list: async () => [],
  async read() {
    await medium.read();
    return NOTHING;
  },
  write: () => medium.write(),
  async remove() {},
});

/** It keeps all that it gets, until its time is over. */
function simulatedServer(medium: TimedMedium, clock: Pick<Clock, 'now'>): ServerTierOptions['server'] {
  /** By key: until when. */
  const kept = new Map<string, number>();
  const has = (key: string): boolean => {
    const there = clock.now() < (kept.get(key) ?? Number.NEGATIVE_INFINITY);
    if (!there) kept.delete(key);
    return there;
  };
  return {
    location: 'a simulated server',
    async has(keys) {
      await medium.ask();
      return keys.map(has);
    },
    async get(key) {
      await medium.read();
      return has(key) ? NOTHING : null;
    },
    async set(key, _value, ttlMs) {
      await medium.write();
      kept.set(key, ttlMs === null ? Number.POSITIVE_INFINITY : clock.now() + ttlMs);
      return null;
    },
    async remove(keys) {
      for (const key of keys) kept.delete(key);
    },
    drop() {},
  };
}
