/**
 * A priority queue of items whose due times move. The heap stores each item's time when it was added. An item whose time has
 * changed since is corrected when it reaches the top, so moving a time later costs nothing.
 */
import { Heap } from '../../engine/heap.ts';

interface Entry<T> {
  atMs: number;
  item: T;
  /** Index in the heap. */
  place: number;
}

export class Deadlines<T> {
  readonly #heap = new Heap<Entry<T>>(
    (a, b) => a.atMs < b.atMs,
    (entry, place) => {
      entry.place = place;
    },
  );
  readonly #entries = new Map<T, Entry<T>>();
  readonly #dueMs: (item: T) => number | null;

  /** `dueMs`: when the item is due, as of now; null if not before it is added again. */
  constructor(dueMs: (item: T) => number | null) {
    this.#dueMs = dueMs;
  }

  /** Adds an item. Also call this when a known item's time may have become earlier. */
  add(item: T): void {
    const atMs = this.#dueMs(item);
    const known = this.#entries.get(item);
    if (atMs === null || (known && known.atMs <= atMs)) return;
    this.remove(item);
    const entry = { atMs, item, place: 0 };
    this.#entries.set(item, entry);
    this.#heap.push(entry);
  }

  /** Removes an item immediately. No-op if it is not there. */
  remove(item: T): void {
    const entry = this.#entries.get(item);
    if (!entry) return;
    this.#entries.delete(item);
    this.#heap.removeAt(entry.place);
  }

  /** When the next item is due; null if none is. */
  nextMs(): number | null {
    for (let { first } = this.#heap; first; first = this.#heap.first) {
      if (this.#dueMs(first.item) === first.atMs) return first.atMs;
      this.remove(first.item);
      this.add(first.item);
    }
    return null;
  }

  /** Removes and returns the items due at nowMs, earliest first. */
  take(nowMs: number): T[] {
    const taken: T[] = [];
    for (let next = this.nextMs(); next !== null && next <= nowMs; next = this.nextMs()) {
      const { item } = this.#heap.first!;
      this.remove(item);
      taken.push(item);
    }
    return taken;
  }
}
