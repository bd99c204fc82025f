/** Brings requested blocks up from lower tiers into a store's memory, and waits for them as the prefetch policy says. */
import type { Prefetch } from '../config/store.ts';
import type { Clock } from '../engine/types.ts';
import { inTime } from '../transport/deadlines.ts';
import type { Arrivals } from './arrivals.ts';
import type { BlockCatalog } from './catalog.ts';
import { heldPrefix, keysOf, type PrefixQuery } from './held-prefix.ts';
import { partsOf, type StoreKey, storeKey } from './keys.ts';

/** The tiers below memory. No call rejects. */
export interface LowerTier {
  /** Which of the keys are there. If worthMs (time saved per block) is known: only those that take no longer than that. */
  look(keys: readonly StoreKey[], worthMs: number | null): Promise<Raising>;
  /** A block arrived from an engine. `parent`: the block before it in its sequence. */
  stored(key: StoreKey, slot: number, parent: StoreKey | null): void;
  /** Blocks of a sequence were requested, in order, whichever tier they are in. */
  used(keys: readonly StoreKey[]): void;
}

/** Blocks that can be brought up. Loads may run concurrently. */
export interface Raising {
  has(key: StoreKey): boolean;
  /** Whether the block comes from a tier below the first one below memory. */
  isFar(key: StoreKey): boolean;
  /** Loads the block into the slot. Resolves to false if it did not arrive. Never rejects. */
  load(key: StoreKey, slot: number): Promise<boolean>;
}

export interface BringUpDeps {
  catalog: BlockCatalog;
  arrivals: Arrivals;
  clock: Pick<Clock, 'sleep'>;
  lower: LowerTier;
  prefetch: Prefetch;
  /** Tokens per block. */
  blockSize: number;
}

export interface BroughtUp {
  /** Blocks kept in memory for the caller, who must release them (completeLoad). */
  kept: readonly StoreKey[];
  /** Those of `kept` that came from lower tiers. */
  up: ReadonlySet<StoreKey>;
  /** Those of `up` that came from a tier below the first one below memory. */
  far: ReadonlySet<StoreKey>;
  /** Those whose load from a lower tier was started. */
  raised: readonly StoreKey[];
}

export const NOTHING_BELOW: BroughtUp = { kept: [], up: new Set(), far: new Set(), raised: [] };

/** SGLang's prefetch policy 'timeout', ms. Capped because engines wait at most 2 s. */
const PREFETCH_MS = { base: 1_000, each1024Tokens: 250, most: 1_900 };

/** Placeholder block id: here only presence matters. */
const SOMEWHERE = 1;

export class BringUp {
  readonly #deps: BringUpDeps;

  constructor(deps: BringUpDeps) {
    this.#deps = deps;
  }

  /**
   * Finds the longest prefix over all tiers, brings its missing blocks into memory, and waits for them as the prefetch policy
   * says.
   */
  async prefixOf(query: PrefixQuery, worthMs: number | null): Promise<BroughtUp> {
    const { catalog, arrivals, lower } = this.#deps;
    const kept: StoreKey[] = [];
    const up = new Set<StoreKey>();
    const far = new Set<StoreKey>();
    const raised: StoreKey[] = [];
    const raising: Promise<void>[] = [];
    let awaited = true;
    const all = query.groups.flatMap((_, group) => query.hashes.map((hash) => storeKey(hash, group)));
    const absent = all.filter((key) => catalog.state(key) === 'absent');
    const below = await lower.look(absent, worthMs);
    /** Blocks that arrive after the wait are not kept: nobody would release them. */
    const onArrival = (key: StoreKey) => {
      if (!awaited) return;
      catalog.keep([key]);
      up.add(key);
      if (below.isFar(key)) far.add(key);
    };
    const somewhere = heldPrefix(query, (key) =>
      catalog.state(key) !== 'absent' || below.has(key) ? SOMEWHERE : null,
    );
    const wanted = keysOf(somewhere, query.hashes);
    lower.used(wanted);
    // Keep the blocks already in memory before making room for the rest, so that they are not evicted.
    kept.push(...wanted.filter((key) => catalog.state(key) === 'ready'));
    catalog.keep(kept);
    const before = new Map<number, StoreKey>();
    for (const key of wanted) {
      const { group } = partsOf(key);
      const parent = before.get(group) ?? null;
      before.set(group, key);
      const state = catalog.state(key);
      if (state === 'ready') continue;
      if (state === 'coming') raising.push(arrivals.of(key).then(() => {}));
      else {
        const slot = catalog.prepareStore(key, parent);
        if (slot === null) break;
        raised.push(key);
        raising.push(this.#load(key, slot, below, onArrival));
      }
    }
    await this.#raised(raising, query);
    awaited = false;
    return { kept: [...kept, ...up], up, far, raised };
  }

  /** Resolves when all blocks have arrived, or when the prefetch policy stops waiting. */
  async #raised(raising: readonly Promise<void>[], { hashes }: PrefixQuery): Promise<void> {
    const { prefetch, clock, blockSize } = this.#deps;
    if (prefetch === 'best_effort') return;
    const all = Promise.all(raising);
    if (prefetch === 'wait_complete' || raising.length === 0) return void (await all);
    const { base, each1024Tokens, most } = PREFETCH_MS;
    const patienceMs = Math.min(base + (each1024Tokens * hashes.length * blockSize) / 1024, most);
    await inTime(all, patienceMs, clock, () => {});
  }

  async #load(
    key: StoreKey,
    slot: number,
    below: Raising,
    onArrival: (key: StoreKey) => void,
  ): Promise<void> {
    const { catalog, arrivals } = this.#deps;
    const isThere = await below.load(key, slot);
    catalog.completeStore(key, isThere);
    if (isThere) onArrival(key);
    arrivals.ended(key);
  }
}
