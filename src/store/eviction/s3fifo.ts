/**
 * S3-FIFO. New keys enter a small queue. Keys used there move to the main queue; the others are evicted and remembered for a
 * while as ghosts. A ghost that returns goes directly to the main queue. There are two parameter sets: AIBrix's
 * (aibrix_kvcache, S3FIFO) and the paper's (Yang et al., SOSP 2023, algorithm 1).
 */
import { type Entry, entryOf, Queue } from '../../engine/entry-queue.ts';
import type { EvictionDeps, EvictionPolicy, Key } from './types.ts';

export interface S3FifoParameters {
  /** Share of the capacity for the small queue. */
  smallShare: number;
  /** Uses in the small queue that promote a key to the main queue. */
  promotion: number;
  /** Whether the small queue evicts when it has reached its share (paper), or only when it exceeds it (AIBrix). */
  smallGives: 'full' | 'over';
  /** Maximum number of ghosts, as a share of the capacity. AIBrix never drops a ghost; here they are bounded. */
  ghostShare: number;
}

export const AIBRIX: S3FifoParameters = { smallShare: 0.3, promotion: 1, smallGives: 'over', ghostShare: 1 };
export const PAPER: S3FifoParameters = {
  smallShare: 0.1,
  promotion: 2,
  smallGives: 'full',
  ghostShare: 0.9,
};

/** Uses are counted up to 3 (two bits). */
const MOST_HOTNESS = 3;

export class S3Fifo implements EvictionPolicy {
  readonly #deps: EvictionDeps;
  readonly #parameters: S3FifoParameters;
  readonly #smallRoom: number;
  readonly #ghostRoom: number;
  /** All entries, including ghosts. */
  readonly #entries = new Map<Key, Entry>();
  readonly #small = new Queue();
  readonly #main = new Queue();
  /** In order of eviction. */
  readonly #ghosts = new Queue();

  constructor(deps: EvictionDeps, parameters: S3FifoParameters) {
    const { capacity } = deps;
    this.#deps = deps;
    this.#parameters = parameters;
    this.#smallRoom = Math.max(1, Math.floor(capacity * parameters.smallShare));
    this.#ghostRoom = Math.max(1, Math.floor(capacity * parameters.ghostShare));
  }

  get size(): number {
    return this.#small.size + this.#main.size;
  }

  /** Number of keys in each queue, for display. */
  get sizes(): { small: number; main: number; ghost: number } {
    return { small: this.#small.size, main: this.#main.size, ghost: this.#ghosts.size };
  }

  has(key: Key): boolean {
    return this.#kept(key) !== null;
  }

  touch(key: Key): void {
    const entry = this.#kept(key);
    if (!entry) return;
    if (entry.hotness < MOST_HOTNESS) entry.hotness++;
    if (entry.queue === this.#small && entry.hotness === this.#parameters.promotion) this.#deps.onHot?.(key);
  }

  /** No-op: only the number of uses matters, not their time. */
  renew(): void {}

  put(key: Key): boolean {
    const known = this.#kept(key);
    if (known) {
      known.queue!.toHead(known);
      return true;
    }
    if (this.size >= this.#deps.capacity && !this.#evict()) return false;
    // Looked up only now, since the eviction may have dropped this ghost.
    const ghost = this.#entries.get(key);
    if (ghost) {
      this.#ghosts.remove(ghost);
      ghost.hotness = 0;
      this.#main.push(ghost);
      this.#deps.onHot?.(key);
    } else {
      const entry = entryOf(key);
      this.#entries.set(key, entry);
      this.#small.push(entry);
    }
    return true;
  }

  remove(key: Key): void {
    const entry = this.#kept(key);
    if (!entry) return;
    entry.queue!.remove(entry);
    this.#entries.delete(key);
  }

  *keys(): Iterable<Key> {
    yield* this.#small.keys();
    yield* this.#main.keys();
  }

  /** Evicts one key. Each round promotes a key, decrements a use count, or evicts. False if no key may go. */
  #evict(): boolean {
    const { mayGo, onEvicted } = this.#deps;
    for (;;) {
      const gives = this.#smallRoom + (this.#parameters.smallGives === 'over' ? 1 : 0);
      const first = this.#small.size >= gives || this.#main.size === 0 ? this.#small : this.#main;
      const other = first === this.#small ? this.#main : this.#small;
      const entry = first.oldest(mayGo) ?? other.oldest(mayGo);
      if (!entry) return false;
      if (entry.queue === this.#small && entry.hotness >= this.#parameters.promotion) {
        this.#small.remove(entry);
        entry.hotness = 0;
        this.#main.push(entry);
      } else if (entry.queue === this.#main && entry.hotness > 0) {
        entry.hotness--;
        this.#main.toHead(entry);
      } else {
        if (entry.queue === this.#small) this.#remember(entry);
        else this.remove(entry.key);
        onEvicted?.(entry.key);
        return true;
      }
    }
  }

  #remember(entry: Entry): void {
    this.#small.remove(entry);
    this.#ghosts.push(entry);
    if (this.#ghosts.size > this.#ghostRoom) this.#entries.delete(this.#ghosts.shift().key);
  }

  /** null if absent or a ghost. */
  #kept(key: Key): Entry | null {
    const entry = this.#entries.get(key);
    return entry && entry.queue !== this.#ghosts ? entry : null;
  }
}
