/**
 * Which of many comes first, where times move: a binary heap of when each was due when it was added. Whoever has another time
 * by now, or none, is put right when it comes to the top, so that moving a time back costs nothing.
 */

interface Entry<T> {
  atMs: number;
  item: T;
}

export class Deadlines<T> {
  readonly #heap: Entry<T>[] = [];
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
    this.#rise();
  }

  /** When the next is due; null: none is. */
  nextMs(): number | null {
    for (let first = this.#heap[0]; first; first = this.#heap[0]) {
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
    const { atMs, item } = this.#pop();
    if (this.#known.get(item) === atMs) this.#known.delete(item);
    return item;
  }

  #rise(): void {
    const heap = this.#heap;
    for (let at = heap.length - 1; at > 0; ) {
      const above = (at - 1) >> 1;
      if (heap[above]!.atMs <= heap[at]!.atMs) return;
      [heap[at], heap[above]] = [heap[above]!, heap[at]!];
      at = above;
    }
  }

  #pop(): Entry<T> {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    heap[0] = last;
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < heap.length && heap[child]!.atMs < heap[least]!.atMs) least = child;
      if (least === at) return first;
      [heap[at], heap[least]] = [heap[least]!, heap[at]!];
      at = least;
    }
  }
}
