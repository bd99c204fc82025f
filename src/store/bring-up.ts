/** Brings blocks up from below a store's memory for who asks for them, and waits for them as long as it is told to. */
import type { Prefetch } from '../config/store.ts';
import type { Clock } from '../engine/types.ts';
import type { Arrivals } from './arrivals.ts';
import type { BlockCatalog } from './catalog.ts';
import { type AskedPrefix, heldPrefix, keysOf } from './held-prefix.ts';
import { partsOf, type StoreKey, storeKey } from './keys.ts';

/** What lies below memory. No call rejects. */
export interface LowerTier {
  /** What of the keys is there, and worth its while where a block's worth in milliseconds is known. */
  look(keys: readonly StoreKey[], worthMs: number | null): Promise<Raising>;
  /** A block came from an engine; `parent`: the one before it in its text. */
  stored(key: StoreKey, slot: number, parent: StoreKey | null): void;
  /** Blocks of a text were asked for, in its order, wherever they are. */
  used(keys: readonly StoreKey[]): void;
}

/** Blocks that can be brought up, all of them begun at once. */
export interface Raising {
  has(key: StoreKey): boolean;
  /** Into the block's slot; false: it did not come. Never rejects. */
  load(key: StoreKey, slot: number): Promise<boolean>;
}

export interface BringUpDeps {
  catalog: BlockCatalog;
  arrivals: Arrivals;
  clock: Pick<Clock, 'sleep'>;
  lower: LowerTier;
  prefetch: Prefetch;
  /** Tokens to a block. */
  blockSize: number;
}

export interface BroughtUp {
  /** These stay in memory, to be let go of. */
  kept: readonly StoreKey[];
  /** Those of them that came from below. */
  up: ReadonlySet<StoreKey>;
  /** How many were sought there. */
  raised: number;
}

export const NOTHING_BELOW: BroughtUp = { kept: [], up: new Set(), raised: 0 };

/** SGLang's, of its prefetch policy 'timeout'; engines wait for 2 s at most. */
const PREFETCH_MS = { base: 1_000, each1024Tokens: 250, most: 1_900 };

/** Stands for a block of which only is asked whether it is anywhere. */
const SOMEWHERE = 1;

export class BringUp {
  readonly #deps: BringUpDeps;

  constructor(deps: BringUpDeps) {
    this.#deps = deps;
  }

  /**
   * Brings into memory what is below it of the longest prefix that there is in all, and waits for it as it is told to. `kept`:
   * these stay there, to be let go of; `up`: those of them that came from below; `raised`: how many were sought there.
   */
  async prefixOf(asked: AskedPrefix, worthMs: number | null): Promise<BroughtUp> {
    const { catalog, arrivals, lower } = this.#deps;
    const kept: StoreKey[] = [];
    const up = new Set<StoreKey>();
    let raised = 0;
    const raising: Promise<void>[] = [];
    let awaited = true;
    /** Nobody is left to let go of what comes later. */
    const came = (key: StoreKey) => {
      if (!awaited) return;
      catalog.keep([key]);
      up.add(key);
    };
    const all = asked.groups.flatMap((_, group) => asked.hashes.map((hash) => storeKey(hash, group)));
    const absent = all.filter((key) => catalog.state(key) === 'absent');
    const below = await lower.look(absent, worthMs);
    const somewhere = heldPrefix(asked, (key) =>
      catalog.state(key) !== 'absent' || below.has(key) ? SOMEWHERE : null,
    );
    const wanted = keysOf(somewhere, asked.hashes);
    lower.used(wanted);
    // What is there is kept before room is made for the rest, or it would be what has to go.
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
        raised++;
        raising.push(this.#load(key, slot, below, came));
      }
    }
    await this.#raised(raising, asked);
    awaited = false;
    return { kept: [...kept, ...up], up, raised };
  }

  /** Resolves when all have come, or who asked is to wait no longer. */
  async #raised(raising: readonly Promise<void>[], { hashes }: AskedPrefix): Promise<void> {
    const { prefetch, clock, blockSize } = this.#deps;
    if (prefetch === 'best_effort') return;
    const all = Promise.all(raising);
    if (prefetch === 'wait_complete' || raising.length === 0) return void (await all);
    const { base, each1024Tokens, most } = PREFETCH_MS;
    const over = new AbortController();
    const patienceMs = Math.min(base + (each1024Tokens * hashes.length * blockSize) / 1024, most);
    await Promise.race([all, clock.sleep(patienceMs, over.signal)]);
    over.abort();
  }

  async #load(key: StoreKey, slot: number, below: Raising, came: (key: StoreKey) => void): Promise<void> {
    const { catalog, arrivals } = this.#deps;
    const isThere = await below.load(key, slot);
    catalog.completeStore(key, isThere);
    if (isThere) came(key);
    arrivals.ended(key);
  }
}
