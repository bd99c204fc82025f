/** Reports blocks stored in and removed from a store's tiers as cache events, in batches, while somebody follows. */
import type { BlockHash } from '../engine/block-hash.ts';
import type { CacheEvent, Medium } from '../engine/cache-event.ts';
import { partsOf, type StoreKey } from './keys.ts';

type Kind = 'stored' | 'removed';

/** In order. Consecutive changes with the same kind, medium and group are merged. */
type Changes = { kind: Kind; medium: Medium; group: number; hashes: BlockHash[] }[];

/** `to`: the follower whose first batch this is, with what is present; null: a change, for all followers. */
export type OnStoreEvents = (events: CacheEvent[], to: number | null) => void;

export class StoreReport {
  readonly #blockSize: number;
  readonly #onEvents: OnStoreEvents;
  #enabled = false;
  #changes: Changes = [];

  /** `onEvents` is called once per microtask with all changes. */
  constructor(blockSize: number, onEvents: OnStoreEvents) {
    this.#blockSize = blockSize;
    this.#onEvents = onEvents;
  }

  /** Reports the keys that are present, by medium, to this follower, even if there are none; then all changes. */
  begin(to: number, present: readonly (readonly [Medium, readonly StoreKey[]])[]): void {
    this.#flush();
    this.#enabled = true;
    const changes: Changes = [];
    for (const [medium, keys] of present) for (const key of keys) add(changes, 'stored', medium, key);
    this.#onEvents(this.#eventsOf(changes), to);
  }

  stop(): void {
    this.#enabled = false;
    this.#changes = [];
  }

  readonly changedIn = (medium: Medium) => (kind: Kind, key: StoreKey) => {
    if (!this.#enabled) return;
    if (this.#changes.length === 0) queueMicrotask(() => this.#flush());
    add(this.#changes, kind, medium, key);
  };

  #flush(): void {
    const changes = this.#changes;
    this.#changes = [];
    if (changes.length > 0) this.#onEvents(this.#eventsOf(changes), null);
  }

  #eventsOf(changes: Changes): CacheEvent[] {
    return changes.map(({ kind, medium, group, hashes: blockHashes }): CacheEvent => {
      if (kind === 'removed') return { kind, group, blockHashes, medium };
      const unknown = { parentBlockHash: null, tokenIds: [] };
      return { kind, group, blockHashes, ...unknown, blockSize: this.#blockSize, medium };
    });
  }
}

function add(changes: Changes, kind: Kind, medium: Medium, key: StoreKey): void {
  const { hash, group } = partsOf(key);
  const last = changes.at(-1);
  if (last?.kind === kind && last.medium === medium && last.group === group) last.hashes.push(hash);
  else changes.push({ kind, medium, group, hashes: [hash] });
}
