/** Counts requests per block, for a bounded number of recently requested ones: vLLM's store_threshold and max_tracker_size. */
import type { BlockHash } from '../../engine/block-hash.ts';
import { type Entry, entryOf, Queue } from '../../engine/entry-queue.ts';

export class ReuseTracker {
  readonly #most: number;
  readonly #asked = new Map<BlockHash, Entry>();
  /** Least recently requested is oldest. An entry's hotness is its count. */
  readonly #order = new Queue();

  constructor(most: number) {
    this.#most = most;
  }

  ask(hash: BlockHash): void {
    let entry = this.#asked.get(hash);
    if (entry) this.#order.toHead(entry);
    else {
      entry = entryOf(hash);
      this.#asked.set(hash, entry);
      this.#order.push(entry);
      if (this.#order.size > this.#most) this.#asked.delete(this.#order.shift().key);
    }
    entry.hotness++;
  }

  count(hash: BlockHash): number {
    return this.#asked.get(hash)?.hotness ?? 0;
  }
}
