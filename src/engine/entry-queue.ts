/**
 * A doubly linked queue of entries, which know their queue: what is done to one takes the same time, however many there are.
 * Of a Map the oldest key is found the slower the more were deleted before it.
 */

export interface Entry<K = string> {
  readonly key: K;
  /** Uses that count; what they mean is its owner's. */
  hotness: number;
  queue: Queue<K> | null;
  /** Towards the head, the newest; null at the head. */
  newer: Entry<K> | null;
  older: Entry<K> | null;
}

export const entryOf = <K>(key: K): Entry<K> => {
  return { key, hotness: 0, queue: null, newer: null, older: null };
};

export class Queue<K = string> {
  size = 0;
  #head: Entry<K> | null = null;
  #tail: Entry<K> | null = null;

  /** The entry must be in no queue. */
  push(entry: Entry<K>): void {
    entry.queue = this;
    entry.newer = null;
    entry.older = this.#head;
    if (this.#head) this.#head.newer = entry;
    else this.#tail = entry;
    this.#head = entry;
    this.size++;
  }

  /** It leaves just before the other, which is in this queue; the entry must be in none. */
  pushBehind(entry: Entry<K>, other: Entry<K>): void {
    entry.queue = this;
    entry.newer = other;
    entry.older = other.older;
    if (other.older) other.older.newer = entry;
    else this.#tail = entry;
    other.older = entry;
    this.size++;
  }

  /** The entry must be in this queue. */
  remove(entry: Entry<K>): void {
    const { newer, older } = entry;
    if (newer) newer.older = older;
    else this.#head = older;
    if (older) older.newer = newer;
    else this.#tail = newer;
    entry.queue = null;
    entry.newer = null;
    entry.older = null;
    this.size--;
  }

  toHead(entry: Entry<K>): void {
    if (this.#head === entry) return;
    this.remove(entry);
    this.push(entry);
  }

  /** The oldest that may go; those passed over stay where they are. */
  oldest(mayGo?: (key: K) => boolean): Entry<K> | null {
    let entry = this.#tail;
    if (mayGo) while (entry && !mayGo(entry.key)) entry = entry.newer;
    return entry;
  }

  /** Takes the oldest out; the queue must have one. */
  shift(): Entry<K> {
    const entry = this.#tail!;
    this.remove(entry);
    return entry;
  }

  /** The oldest first. */
  *keys(): Iterable<K> {
    for (let entry = this.#tail; entry; entry = entry.newer) yield entry.key;
  }
}
