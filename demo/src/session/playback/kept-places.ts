/** Snapshots of the state along the played events, so that going back need not replay everything. */
import { clearState, keepState, type WritableState } from '../state.ts';

/** Beyond this, the oldest snapshots are dropped. */
const MOST_KEPT = 40;

interface Place {
  /** Index of the next event. */
  next: number;
  atMs: number;
  restore: () => void;
}

export class KeptPlaces {
  readonly #state: WritableState;
  #places: Place[] = [];

  constructor(state: WritableState) {
    this.#state = state;
  }

  /** Keeps the current state; `next` is the index of the next event. */
  keep(next: number, atMs: number): void {
    this.#places.push({ next, atMs, restore: keepState(this.#state) });
    if (this.#places.length > MOST_KEPT) this.#places.shift();
  }

  /** An event was inserted at this index: snapshots of later places lack it. */
  changedAt(index: number): void {
    this.#places = this.#places.filter(({ next }) => next <= index);
  }

  /** Restores the last state at or before `atMs`, or the empty state. Returns the index of the next event. */
  backTo(atMs: number): number {
    this.#places = this.#places.filter((place) => place.atMs <= atMs);
    const last = this.#places.at(-1);
    if (last) last.restore();
    else clearState(this.#state);
    return last?.next ?? 0;
  }

  forget(): void {
    this.#places = [];
  }
}
