/**
 * Adaptive replacement: keys used once and keys used again are two queues, and what is asked for soon after it left says
 * which of them should have been longer. vLLM's eviction_policy "arc" (Megiddo and Modha, FAST 2003).
 */
import { type Entry, entryOf, Queue } from './queue.ts';
import type { EvictionDeps, EvictionPolicy, Key } from './types.ts';

export class Arc implements EvictionPolicy {
  readonly #deps: EvictionDeps;
  readonly #entries = new Map<Key, Entry>();
  /** Used once; used again. */
  readonly #recent = new Queue();
  readonly #frequent = new Queue();
  /** What left each of them, in that order. */
  readonly #recentGhosts = new Set<Key>();
  readonly #frequentGhosts = new Set<Key>();
  /** Keys that `recent` should have. */
  #target = 0;

  constructor(deps: EvictionDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#recent.size + this.#frequent.size;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  touch(key: Key): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    entry.queue!.remove(entry);
    this.#frequent.push(entry);
  }

  put(key: Key): boolean {
    if (this.#entries.has(key)) {
      this.touch(key);
      return true;
    }
    const { capacity } = this.#deps;
    const ghost = this.#adapt(key);
    if (this.size >= capacity && !this.#evict(ghost === 'frequent')) return false;
    this.#recentGhosts.delete(key);
    this.#frequentGhosts.delete(key);
    const entry = entryOf(key);
    this.#entries.set(key, entry);
    (ghost === null ? this.#recent : this.#frequent).push(entry);
    // The paper's bounds: recent and its ghosts one capacity, all four two.
    while (this.#recentGhosts.size > 0 && this.#recent.size + this.#recentGhosts.size > capacity)
      forgetOldest(this.#recentGhosts);
    while (this.size + this.#recentGhosts.size + this.#frequentGhosts.size > 2 * capacity)
      forgetOldest(this.#frequentGhosts);
    return true;
  }

  remove(key: Key): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    entry.queue!.remove(entry);
    this.#entries.delete(key);
  }

  *keys(): Iterable<Key> {
    yield* this.#recent.keys();
    yield* this.#frequent.keys();
  }

  /** Which queue the key left lately, which is then to be longer; null: neither. */
  #adapt(key: Key): 'recent' | 'frequent' | null {
    const [recent, frequent] = [this.#recentGhosts, this.#frequentGhosts];
    if (recent.has(key)) {
      const step = Math.max(1, frequent.size / recent.size);
      this.#target = Math.min(this.#deps.capacity, this.#target + step);
      return 'recent';
    }
    if (!frequent.has(key)) return null;
    this.#target = Math.max(0, this.#target - Math.max(1, recent.size / frequent.size));
    return 'frequent';
  }

  /** The paper's REPLACE. */
  #evict(forFrequentGhost: boolean): boolean {
    const { mayGo, onEvicted } = this.#deps;
    const { size } = this.#recent;
    const fromRecent = size > 0 && (size > this.#target || (forFrequentGhost && size === this.#target));
    const [first, other] = fromRecent ? [this.#recent, this.#frequent] : [this.#frequent, this.#recent];
    const entry = first.oldest(mayGo) ?? other.oldest(mayGo);
    if (!entry) return false;
    (entry.queue === this.#recent ? this.#recentGhosts : this.#frequentGhosts).add(entry.key);
    this.remove(entry.key);
    onEvicted?.(entry.key);
    return true;
  }
}

function forgetOldest(ghosts: Set<Key>): void {
  ghosts.delete(ghosts.values().next().value!);
}
