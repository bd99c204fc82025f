/**
 * Which of many comes first, where times move: a heap of when each was due when it was added. Whoever has another time
 * by now, or none, is put right when it comes to the top, so that moving a time back costs nothing.
 */
import { Heap } from '../../engine/heap.ts';

interface Entry<T> {
  atMs: number;
  item: T;
}

export class Deadlines<T> {
  readonly #heap = new Heap<Entry<T>>((a, b) => a.atMs < b.atMs);
  /** The earliest entry of each. */
  readonly #known = new Map<T, number>();
  readonly #dueMs: (item: T) => number | null;

  /** `dueMs`: when it is due now; null: never any more, unless it is added again. */
  constructor(dueMs: (item: T) => number | null) {
    this.#dueMs = dueMs;
  }

  /** Also call when something may be due earlier than it was. */
  add(item: T): void {
    const atMs = this.#dueMs(item);
    const known = this.#known.get(item);
    if (atMs === null || (known !== undefined && known <= atMs)) return;
    this.#known.set(item, atMs);
    this.#heap.push({ atMs, item });
  }

  /** When the next is due; null: none is. */
  nextMs(): number | null {
    for (let { first } = this.#heap; first; first = this.#heap.first) {
      if (this.#dueMs(first.item) === first.atMs) return first.atMs;
      this.#take();
      this.add(first.item);
    }
    return null;
  }

  /** Takes those out that are due, each once. */
  take(nowMs: number): T[] {
    const taken = new Set<T>();
    for (let next = this.nextMs(); next !== null && next <= nowMs; next = this.nextMs())
      taken.add(this.#take());
    return [...taken];
  }

  #take(): T {
    const { atMs, item } = this.#heap.pop()!;
    if (this.#known.get(item) === atMs) this.#known.delete(item);
    return item;
  }
}
