/**
 * How many blocks are kept for readers, over time: counted where holds begin and end, never by looking now and then.
 * A block in several holds counts once: it is memory that is measured.
 */
import { type BlockIds, type Clock, NULL_BLOCK } from '../engine/types.ts';

export interface HoldUse {
  /** Now. */
  blocks: number;
  peakBlocks: number;
  /** Blocks × milliseconds, from sinceMs to atMs. */
  blockMs: number;
  /** On the shared clock, milliseconds: the meter's first moment, and now. */
  sinceMs: number;
  atMs: number;
}

export class HoldMeter {
  readonly #clock: Clock;
  readonly #sinceMs: number;
  /** In how many holds each block is, by its id. */
  #holders = new Int32Array(1024);
  /** Those that are in any. */
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
