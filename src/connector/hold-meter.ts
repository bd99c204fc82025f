/**
 * How many blocks are kept for readers, over time: counted where holds begin and end, never by looking now and then.
 * A block in several holds counts once: it is memory that is measured.
 */
import type { BlockIds, Clock } from '../engine/types.ts';

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
  /** By group and id: in how many holds it is. */
  readonly #holders = new Map<string, number>();
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
    for (const key of keys(blockIds)) this.#holders.set(key, (this.#holders.get(key) ?? 0) + 1);
    this.#peak = Math.max(this.#peak, this.#holders.size);
  }

  end(blockIds: BlockIds): void {
    this.#integrate();
    for (const key of keys(blockIds)) {
      const left = (this.#holders.get(key) ?? 0) - 1;
      if (left > 0) this.#holders.set(key, left);
      else this.#holders.delete(key);
    }
  }

  use(): HoldUse {
    this.#integrate();
    return {
      blocks: this.#holders.size,
      peakBlocks: this.#peak,
      blockMs: this.#blockMs,
      sinceMs: this.#sinceMs,
      atMs: this.#changedMs,
    };
  }

  #integrate(): void {
    const now = this.#clock.now();
    this.#blockMs += this.#holders.size * (now - this.#changedMs);
    this.#changedMs = now;
  }
}

function* keys(blockIds: BlockIds): Generator<string> {
  for (const [group, ids] of blockIds.entries()) for (const id of ids) yield `${group}:${id}`;
}
