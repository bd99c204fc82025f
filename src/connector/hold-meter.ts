/**
 * Measures how many blocks are held for readers over time. It counts at the start and end of each hold and does not sample.
 * A block in several holds counts once, since this measures memory.
 */
import { type BlockIds, type Clock, NULL_BLOCK } from '../engine/types.ts';

export interface HoldUse {
  /** Blocks held now. */
  blocks: number;
  peakBlocks: number;
  /** Blocks × milliseconds, from sinceMs to atMs. */
  blockMs: number;
  /** When the meter was created, and now: ms on the shared clock. */
  sinceMs: number;
  atMs: number;
}

export class HoldMeter {
  readonly #clock: Clock;
  readonly #sinceMs: number;
  /** Number of holds that each block is in, by block id. */
  #holders = new Int32Array(1024);
  /** Blocks that are in at least one hold. */
  #blocks = 0;
  #peak = 0;
  #blockMs = 0;
  #changedMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.now();
    this.#changedMs = this.#sinceMs;
  }

  begin(blockIds: BlockIds): void {
    this.#integrate();
    for (const ids of blockIds)
      for (const id of ids) {
        if (id === NULL_BLOCK) continue;
        if (id >= this.#holders.length) this.#holders = longer(this.#holders, id + 1);
        if (this.#holders[id]!++ === 0) this.#blocks++;
      }
    this.#peak = Math.max(this.#peak, this.#blocks);
  }

  end(blockIds: BlockIds): void {
    this.#integrate();
    for (const ids of blockIds)
      for (const id of ids) if (id !== NULL_BLOCK && --this.#holders[id]! === 0) this.#blocks--;
  }

  use(): HoldUse {
    this.#integrate();
    return {
      blocks: this.#blocks,
      peakBlocks: this.#peak,
      blockMs: this.#blockMs,
      sinceMs: this.#sinceMs,
      atMs: this.#changedMs,
    };
  }

  #integrate(): void {
    const now = this.#clock.now();
    this.#blockMs += this.#blocks * (now - this.#changedMs);
    this.#changedMs = now;
  }
}

function longer(counts: Int32Array<ArrayBuffer>, least: number): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(Math.max(least, 2 * counts.length));
  grown.set(counts);
  return grown;
}
