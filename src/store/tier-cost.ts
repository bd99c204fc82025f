/** What bringing a block up from a tier costs, by what it took of late. */
import type { Clock } from '../engine/types.ts';

/** Batches that count: the median of so many is not moved by one that a busy machine held up. */
const BATCHES = 7;
/** Of those that are not worth it one in so many is brought up all the same: a disk that was slow once is not so for ever. */
const ASK_AGAIN = 20;

export class TierCost {
  readonly #clock: Pick<Clock, 'now'>;
  /** Milliseconds a block. */
  readonly #recent: number[] = [];
  #left = 0;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Milliseconds a block, of several brought up at once; 0 until any was. */
  get blockMs(): number {
    const sorted = this.#recent.toSorted((a, b) => a - b);
    return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  }

  /** Whether blocks are brought up; `worthMs`: what having one spares, null: not known, and they are. */
  isWorth(worthMs: number | null): boolean {
    if (worthMs === null || this.blockMs <= worthMs) return true;
    return ++this.#left % ASK_AGAIN === 0;
  }

  /** For reads that begin together: learns from how long it took until all had come, if they did. */
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
