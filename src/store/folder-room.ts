/** Which blocks have room in a folder's quota: counts bytes, chooses what is evicted, and touches no files. */
import { Lru } from './eviction/lru.ts';
import { partsOf, type StoreKey } from './keys.ts';

/** How many blocks are remembered for which there was no room. */
const MOST_CUT = 4096;

export class FolderRoom {
  readonly #bytes: number;
  readonly #onEvicted: (key: StoreKey) => void;
  /** File size of each block, including those still being written. */
  readonly #sizes = new Map<StoreKey, number>();
  #taken = 0;
  /** Order of eviction. No bound on the number, only on bytes: blocks of different groups differ in size. */
  readonly #order = new Lru({ capacity: Number.POSITIVE_INFINITY });
  /** Hashes of blocks for which there was no room: later blocks of their sequences get none either. */
  readonly #cut = new Lru({ capacity: MOST_CUT });

  /** `onEvicted` is called after a block has lost its room to another: its file must go. */
  constructor({ bytes, onEvicted }: { bytes: number; onEvicted: (key: StoreKey) => void }) {
    this.#bytes = bytes;
    this.#onEvicted = onEvicted;
  }

  has(key: StoreKey): boolean {
    return this.#order.has(key);
  }

  /** The first block counts as used most recently: without it, the rest is useless. */
  used(keys: readonly StoreKey[]): void {
    for (const key of keys.toReversed()) this.#order.touch(key);
  }

  /** Makes room by evicting the least recently used blocks. False if that would evict the sequence's own earlier blocks. */
  enter(key: StoreKey, bytes: number, parent: StoreKey | null = null): boolean {
    // It may replace a file that could not be read.
    this.leave(key);
    while (this.#taken + bytes > this.#bytes && this.#order.size > 0) {
      const [oldest] = this.#order.keys();
      if (parent !== null && this.#ends(key, parent, oldest!)) {
        this.#cut.put(partsOf(key).hash);
        return false;
      }
      this.leave(oldest!);
      this.#onEvicted(oldest!);
    }
    this.#cut.remove(partsOf(key).hash);
    this.#order.put(key, parent);
    this.#sizes.set(key, bytes);
    this.#taken += bytes;
    return true;
  }

  leave(key: StoreKey): void {
    this.#order.remove(key);
    this.#taken -= this.#sizes.get(key) ?? 0;
    this.#sizes.delete(key);
  }

  /** Whether the sequence has no room from this block on. A missing parent alone is no sign: windowed groups skip blocks. */
  #ends(key: StoreKey, parent: StoreKey, oldest: StoreKey): boolean {
    if (this.#order.has(parent)) return oldest === parent;
    return [key, parent].some((each) => this.#cut.has(partsOf(each).hash));
  }
}
