/**
 * The listeners to one source of cache events. Each first gets what is in the cache, and then every change; before that,
 * it gets no changes, because what is in the cache will contain them.
 */
import type { CacheEventBatch } from './notices.ts';

export class Followers {
  readonly #report: (to: number | null) => void;
  readonly #followers = new Map<number, { tell: (batch: CacheEventBatch) => void; begun: boolean }>();
  #ever = 0;

  /** `report`: asks the source for what is in the cache, for the follower of this number; null: to report nothing more. */
  constructor(report: (to: number | null) => void) {
    this.#report = report;
  }

  /** Returns a function that removes the listener. */
  add(tell: (batch: CacheEventBatch) => void): () => void {
    const number = ++this.#ever;
    this.#followers.set(number, { tell, begun: false });
    this.#report(number);
    return () => {
      if (this.#followers.delete(number) && this.#followers.size === 0) this.#report(null);
    };
  }

  /** `to`: the follower to whom the source reports what is in the cache; null: changes, for all. */
  tell(batch: CacheEventBatch, to: number | null): void {
    for (const [number, follower] of this.#followers) {
      if (number === to) follower.begun = true;
      else if (to !== null || !follower.begun) continue;
      if (batch.events.length > 0) follower.tell(batch);
    }
  }
}
