/** Reports blocks stored in and removed from a store's tiers as cache events, in batches, while enabled. */
import type { BlockHash } from '../engine/block-hash.ts';
import type { CacheEvent, Medium } from '../engine/cache-event.ts';
import { partsOf, type StoreKey } from './keys.ts';

type Kind = 'stored' | 'removed';

export class StoreReport {
  readonly #blockSize: number;
  readonly #onEvents: (events: CacheEvent[]) => void;
  #enabled = false;
  /** In order. Consecutive changes with the same kind, medium and group are merged. */
  #changes: { kind: Kind; medium: Medium; group: number; hashes: BlockHash[] }[] = [];

  /** `onEvents` is called once per microtask with all changes. */
  constructor(blockSize: number, onEvents: (events: CacheEvent[]) => void) {
    this.#blockSize = blockSize;
    this.#onEvents = onEvents;
  }

  /** Enables or disables reports. When enabled, first reports the keys that are present, by medium. */
  setEnabled(enabled: boolean, present: readonly (readonly [Medium, readonly StoreKey[]])[]): void {
    this.#enabled = enabled;
    this.#changes = [];
    if (!enabled) return;
    for (const [medium, keys] of present) for (const key of keys) this.#add('stored', medium, key);
  }

  readonly changedIn = (medium: Medium) => (kind: Kind, key: StoreKey) => this.#add(kind, medium, key);

  #add(kind: Kind, medium: Medium, key: StoreKey): void {
    if (!this.#enabled) return;
    if (this.#changes.length === 0) queueMicrotask(() => this.#flush());
    const { hash, group } = partsOf(key);
    const last = this.#changes.at(-1);
    if (last?.kind === kind && last.medium === medium && last.group === group) last.hashes.push(hash);
    else this.#changes.push({ kind, medium, group, hashes: [hash] });
  }

  #flush(): void {
    const changes = this.#changes;
    this.#changes = [];
    if (changes.length === 0) return;
    this.#onEvents(
      changes.map(({ kind, medium, group, hashes: blockHashes }): CacheEvent => {
        if (kind === 'removed') return { kind, group, blockHashes, medium };
        const unknown = { parentBlockHash: null, tokenIds: [] };
        return { kind, group, blockHashes, ...unknown, blockSize: this.#blockSize, medium };
      }),
    );
  }
}
