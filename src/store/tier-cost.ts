/** Estimates the cost of bringing a block up from a tier, from recent loads. */
import type { Clock } from '../engine/types.ts';

/** Number of recent batches whose median is used, so that one delayed by a busy machine does not matter. */
const BATCHES = 7;
/** When loads are not worth it, one in this many is done anyway: a disk that was slow once may be fast again. */
const ASK_AGAIN = 20;

export class TierCost {
  readonly #clock: Pick<Clock, 'now'>;
  /** Ms per block, by batch, oldest first. */
  readonly #recent: number[] = [];
  #left = 0;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Estimated ms per block in a batch of concurrent loads; 0 until there was one. */
  get blockMs(): number {
    const sorted = this.#recent.toSorted((a, b) => a - b);
    return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  }

  /** Whether to bring up blocks. `worthMs`: ms saved by having one, or null if not known, and then always true. */
  isWorth(worthMs: number | null): boolean {
    if (worthMs === null || this.blockMs <= worthMs) return true;
    return ++this.#left % ASK_AGAIN === 0;
  }

  /** For reads that start together: learns from the time until all have arrived. If one does not arrive, learns nothing. */
  batch(): (read: () => Promise<boolean>) => Promise<boolean> {
    let begunMs = 0;
    let blocks = 0;
    let underWay = 0;
    let allCame = true;
    return async (read) => {
      if (underWay++ === 0) [begunMs, blocks, allCame] = [this.#clock.now(), 0, true];
      blocks++;
      const came = await read();
      allCame &&= came;
      if (--underWay === 0 && allCame) this.#learn((this.#clock.now() - begunMs) / blocks);
      return came;
    };
  }

  #learn(blockMs: number): void {
    this.#recent.push(blockMs);
    if (this.#recent.length > BATCHES) this.#recent.shift();
  }
}
