/**
 * Adaptive replacement cache: vLLM's eviction_policy "arc" (Megiddo and Modha, FAST 2003). Keys used once and keys used again
 * have separate queues. A key that returns soon after its eviction (a ghost) shows which queue should have been longer.
 */
import { type Entry, entryOf, Queue } from '../../engine/entry-queue.ts';
import type { EvictionDeps, EvictionPolicy, Key } from './types.ts';

export class Arc implements EvictionPolicy {
  readonly #deps: EvictionDeps;
  /** All entries, including ghosts. */
  readonly #entries = new Map<Key, Entry>();
  /** Keys used once, and keys used again. */
  readonly #recent = new Queue();
  readonly #frequent = new Queue();
  /** Keys evicted from each of them, in order of eviction. */
  readonly #recentGhosts = new Queue();
  readonly #frequentGhosts = new Queue();
  /** Target size of `recent`, in keys. */
  #target = 0;

  constructor(deps: EvictionDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#recent.size + this.#frequent.size;
  }

  has(key: Key): boolean {
    return this.#kept(key) !== null;
  }

  touch(key: Key): void {
    const entry = this.#kept(key);
    if (entry) this.#use(entry);
  }

  renew(key: Key): void {
    const entry = this.#kept(key);
    if (entry) entry.queue!.toHead(entry);
  }

  put(key: Key, parent: Key | null = null): boolean {
    const known = this.#entries.get(key);
    if (known && this.#isKept(known)) {
      this.#use(known);
      return true;
    }
    const { capacity } = this.#deps;
    if (known) this.#adapt(known);
    if (this.size >= capacity && !this.#evict(known?.queue === this.#frequentGhosts)) return false;
    const before = parent === null ? null : this.#kept(parent);
    if (known) this.#use(known, before);
    else {
      const entry = entryOf(key);
      this.#entries.set(key, entry);
      place(entry, this.#recent, before);
    }
    // The paper's bounds: `recent` and its ghosts at most one capacity, all four queues at most two.
    while (this.#recentGhosts.size > 0 && this.#recent.size + this.#recentGhosts.size > capacity)
      this.#forgetOldest(this.#recentGhosts);
    while (this.size + this.#recentGhosts.size + this.#frequentGhosts.size > 2 * capacity)
      this.#forgetOldest(this.#frequentGhosts);
    return true;
  }

  remove(key: Key): void {
    const entry = this.#kept(key);
    if (!entry) return;
    entry.queue!.remove(entry);
    this.#entries.delete(key);
  }

  *keys(): Iterable<Key> {
    yield* this.#recent.keys();
    yield* this.#frequent.keys();
  }

  /** Lengthens the queue that this ghost was evicted from. */
  #adapt({ queue }: Entry): void {
    const [recent, frequent] = [this.#recentGhosts.size, this.#frequentGhosts.size];
    this.#target =
      queue === this.#recentGhosts
        ? Math.min(this.#deps.capacity, this.#target + Math.max(1, frequent / recent))
        : Math.max(0, this.#target - Math.max(1, recent / frequent));
  }

  /** The paper's REPLACE. */
  #evict(forFrequentGhost: boolean): boolean {
    const { mayGo, onEvicted } = this.#deps;
    const { size } = this.#recent;
    const fromRecent = size > 0 && (size > this.#target || (forFrequentGhost && size === this.#target));
    const [first, other] = fromRecent ? [this.#recent, this.#frequent] : [this.#frequent, this.#recent];
    const entry = first.oldest(mayGo) ?? other.oldest(mayGo);
    if (!entry) return false;
    const ghosts = entry.queue === this.#recent ? this.#recentGhosts : this.#frequentGhosts;
    entry.queue!.remove(entry);
    ghosts.push(entry);
    onEvicted?.(entry.key);
    return true;
  }

  /** The key was used again, or returned as a ghost: moves it to `frequent`. It is hot if it was not there before. */
  #use(entry: Entry, before: Entry | null = null): void {
    const isHot = entry.queue !== this.#frequent;
    entry.queue!.remove(entry);
    place(entry, this.#frequent, before);
    if (isHot) this.#deps.onHot?.(entry.key);
  }

  #forgetOldest(ghosts: Queue): void {
    this.#entries.delete(ghosts.shift().key);
  }

  #isKept({ queue }: Entry): boolean {
    return queue === this.#recent || queue === this.#frequent;
  }

  /** null if absent or a ghost. */
  #kept(key: Key): Entry | null {
    const entry = this.#entries.get(key);
    return entry && this.#isKept(entry) ? entry : null;
  }
}

/** Adds to the queue, behind its predecessor in the sequence if that is in the same queue. */
function place(entry: Entry, queue: Queue, before: Entry | null): void {
  if (before?.queue === queue) queue.pushBehind(entry, before);
  else queue.push(entry);
}
