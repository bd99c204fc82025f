/**
 * How many blocks are kept for readers, over time: counted where holds begin and end, never by looking now and then.
 * A block in several holds counts once: it is memory that is measured.
 */
import { type BlockId, type BlockIds, type Clock, NULL_BLOCK } from '../engine/types.ts';

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
  /** In how many holds a block is. */
  readonly #holders = new Map<BlockId, number>();
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
    for (const id of heldIn(blockIds)) this.#holders.set(id, (this.#holders.get(id) ?? 0) + 1);
    this.#peak = Math.max(this.#peak, this.#holders.size);
  }

  end(blockIds: BlockIds): void {
    this.#integrate();
    for (const id of heldIn(blockIds)) {
      const left = (this.#holders.get(id) ?? 0) - 1;
      if (left > 0) this.#holders.set(id, left);
      else this.#holders.delete(id);
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

function* heldIn(blockIds: BlockIds): Generator<BlockId> {
  for (const ids of blockIds) for (const id of ids) if (id !== NULL_BLOCK) yield id;
}
