/** Places of what is played, each with the state as it was there: whoever goes back need not hear everything again. */
import { clearState, keepState, type WritableState } from './state.ts';

/** Then the oldest go. */
const MOST_KEPT = 40;

interface Place {
  /** The event that comes next. */
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

  /** Before the event that comes next. */
  keep(next: number, atMs: number): void {
    this.#places.push({ next, atMs, restore: keepState(this.#state) });
    if (this.#places.length > MOST_KEPT) this.#places.shift();
  }

  /** The state is as it was at the last place before then, or at the beginning; returns the event that comes next. */
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
