/** Evicts the least recently used key: vLLM's eviction_policy "lru". As in AIBrix's LRU, a key is hot from its first use on. */
import { type Entry, entryOf, Queue } from '../../engine/entry-queue.ts';
import type { EvictionDeps, EvictionPolicy, Key } from './types.ts';

export class Lru implements EvictionPolicy {
  readonly #deps: EvictionDeps;
  readonly #entries = new Map<Key, Entry>();
  readonly #queue = new Queue();

  constructor(deps: EvictionDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#queue.size;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  touch(key: Key): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#queue.toHead(entry);
    if (entry.hotness > 0) return;
    entry.hotness++;
    this.#deps.onHot?.(key);
  }

  renew(key: Key): void {
    const entry = this.#entries.get(key);
    if (entry) this.#queue.toHead(entry);
  }

  put(key: Key, parent: Key | null = null): boolean {
    const known = this.#entries.get(key);
    if (known) {
      this.#queue.toHead(known);
      return true;
    }
    const { capacity, mayGo, onEvicted } = this.#deps;
    if (this.#queue.size >= capacity) {
      const victim = this.#queue.oldest(mayGo);
      if (!victim) return false;
      this.remove(victim.key);
      onEvicted?.(victim.key);
    }
    const entry = entryOf(key);
    this.#entries.set(key, entry);
    const before = parent === null ? undefined : this.#entries.get(parent);
    if (before) this.#queue.pushBehind(entry, before);
    else this.#queue.push(entry);
    return true;
  }

  remove(key: Key): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#queue.remove(entry);
    this.#entries.delete(key);
  }

  keys(): Iterable<Key> {
    return this.#queue.keys();
  }
}
