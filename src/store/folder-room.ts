/** Which blocks have room in a folder's quota: counts bytes, chooses what is evicted, and touches no files. */
import type { BlockHash } from '../engine/block-hash.ts';
import { Lru } from './eviction/lru.ts';
import { partsOf } from './keys.ts';

/** How many blocks are remembered for which there was no room. */
const MOST_CUT = 4096;

export class FolderRoom {
  readonly #bytes: number;
  readonly #onEvicted: (hash: BlockHash) => void;
  /** File size of each block, including those still being written. */
  readonly #sizes = new Map<BlockHash, number>();
  #taken = 0;
  /** Order of eviction. No bound on the number, only on bytes: blocks of different groups differ in size. */
  readonly #order = new Lru({ capacity: Number.POSITIVE_INFINITY });
  /** Hashes of blocks for which there was no room: later blocks of their sequences get none either. */
  readonly #cut = new Lru({ capacity: MOST_CUT });

  /** `onEvicted` is called after a block has lost its room to another: its file must go. */
  constructor({ bytes, onEvicted }: { bytes: number; onEvicted: (hash: BlockHash) => void }) {
    this.#bytes = bytes;
    this.#onEvicted = onEvicted;
  }

  has(hash: BlockHash): boolean {
    return this.#order.has(hash);
  }

  /** The first block counts as used most recently: without it, the rest is useless. */
  used(hashes: readonly BlockHash[]): void {
    for (const hash of hashes.toReversed()) this.#order.touch(hash);
  }

  /** Makes room by evicting the least recently used blocks. False if that would evict the sequence's own earlier blocks. */
  enter(hash: BlockHash, bytes: number, parent: BlockHash | null = null): boolean {
    // It may replace a file that could not be read.
    this.leave(hash);
    while (this.#taken + bytes > this.#bytes && this.#order.size > 0) {
      const [oldest] = this.#order.keys();
      if (parent !== null && this.#ends(hash, parent, oldest!)) {
        this.#cut.put(partsOf(hash).hash);
        return false;
      }
      this.leave(oldest!);
      this.#onEvicted(oldest!);
    }
    this.#cut.remove(partsOf(hash).hash);
    this.#order.put(hash, parent);
    this.#sizes.set(hash, bytes);
    this.#taken += bytes;
    return true;
  }

  leave(hash: BlockHash): void {
    this.#order.remove(hash);
    this.#taken -= this.#sizes.get(hash) ?? 0;
    this.#sizes.delete(hash);
  }

  /** Whether the sequence has no room from this block on. A missing parent alone is no sign: windowed groups skip blocks. */
  #ends(hash: BlockHash, parent: BlockHash, oldest: BlockHash): boolean {
    if (this.#order.has(parent)) return oldest === parent;
    return [hash, parent].some((key) => this.#cut.has(partsOf(key).hash));
  }
}
