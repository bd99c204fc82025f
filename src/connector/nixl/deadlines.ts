/**
 * Which of many comes first, where times move: a heap of when each was due when it was added. Whoever has another time
 * by now, or none, is put right when it comes to the top, so that moving a time back costs nothing.
 */
import { Heap } from '../../engine/heap.ts';

interface Entry<T> {
  atMs: number;
  item: T;
  /** In the heap. */
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

  /** `dueMs`: when it is due now; null: not before it is added again. */
  constructor(dueMs: (item: T) => number | null) {
    this.#dueMs = dueMs;
  }

  /** Also call when something may be due earlier than it was. */
  add(item: T): void {
    const atMs = this.#dueMs(item);
    const known = this.#entries.get(item);
    if (atMs === null || (known && known.atMs <= atMs)) return;
    this.remove(item);
    const entry = { atMs, item, place: 0 };
    this.#entries.set(item, entry);
    this.#heap.push(entry);
  }

  /** It is over: nothing of it is kept until its time. No-op for one that is not there. */
  remove(item: T): void {
    const entry = this.#entries.get(item);
    if (!entry) return;
    this.#entries.delete(item);
    this.#heap.removeAt(entry.place);
  }

  /** When the next is due; null: none is. */
  nextMs(): number | null {
    for (let { first } = this.#heap; first; first = this.#heap.first) {
      if (this.#dueMs(first.item) === first.atMs) return first.atMs;
      this.remove(first.item);
      this.add(first.item);
    }
    return null;
  }

  /** Takes those out that are due, each once. */
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
