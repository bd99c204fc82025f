/** How often blocks were asked for, of the last so many different ones: vLLM's store_threshold and max_tracker_size. */
import type { BlockHash } from '../../engine/block-hash.ts';

export class ReuseTracker {
  readonly #most: number;
  /** The one asked for longest ago first. */
  readonly #asked = new Map<BlockHash, number>();

  constructor(most: number) {
    this.#most = most;
  }

  ask(hash: BlockHash): void {
    const before = this.#asked.get(hash) ?? 0;
    this.#asked.delete(hash);
    this.#asked.set(hash, before + 1);
    if (this.#asked.size > this.#most) this.#asked.delete(this.#asked.keys().next().value!);
  }

  count(hash: BlockHash): number {
    return this.#asked.get(hash) ?? 0;
  }
}
