/** Counts requests per block, for a bounded number of recently requested ones: vLLM's store_threshold and max_tracker_size. */
import type { BlockHash } from '../../engine/block-hash.ts';
import { type Entry, entryOf, Queue } from '../../engine/entry-queue.ts';

export class ReuseTracker {
  readonly #most: number;
  readonly #entries = new Map<BlockHash, Entry>();
  /** Least recently requested is oldest. An entry's hotness is its count. */
  readonly #order = new Queue();

  constructor(most: number) {
    this.#most = most;
  }

  record(hash: BlockHash): void {
    let entry = this.#entries.get(hash);
    if (entry) this.#order.toHead(entry);
    else {
      entry = entryOf(hash);
      this.#entries.set(hash, entry);
      this.#order.push(entry);
      if (this.#order.size > this.#most) this.#entries.delete(this.#order.shift().key);
    }
    entry.hotness++;
  }

  count(hash: BlockHash): number {
    return this.#entries.get(hash)?.hotness ?? 0;
  }
}
