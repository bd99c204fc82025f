/**
 * A doubly linked queue of entries that know their queue. Every operation on an entry is O(1). A Map would not do: finding its
 * oldest key gets slower with each deletion before it.
 */

export interface Entry<K = string> {
  readonly key: K;
  /** Use count. Maintained and interpreted by the entry's owner. */
  hotness: number;
  queue: Queue<K> | null;
  /** The neighbour towards the head (newest); null at the head. */
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

  /** Inserts an entry that is in no queue directly behind `other`, which is in this one: it leaves just before it. */
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

  /** The oldest entry for which mayGo is true (default: any), or null. The order does not change. */
  oldest(isEligible?: (key: K) => boolean): Entry<K> | null {
    let entry = this.#tail;
    if (isEligible) while (entry && !isEligible(entry.key)) entry = entry.newer;
    return entry;
  }

  /** Removes and returns the oldest entry. The queue must not be empty. */
  shift(): Entry<K> {
    const entry = this.#tail!;
    this.remove(entry);
    return entry;
  }

  /** Oldest first. */
  *keys(): Iterable<K> {
    for (let entry = this.#tail; entry; entry = entry.newer) yield entry.key;
  }
}
