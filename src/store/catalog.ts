/**
 * Which block lies where in a store's memory: keys (keys.ts), slots, and who uses them now. A slot is there to be read once its bytes
 * have come, and is not taken from anyone who reads or writes it. Knows no bytes, no engine and no folder. The steps are
 * those of vLLM's OffloadingManager: lookup, prepareLoad, completeLoad, prepareStore, completeStore.
 */
import type { EvictionName } from '../config/store.ts';
import { invariant } from '../errors.ts';
import { makeEviction } from './eviction/make.ts';
import type { EvictionPolicy, Key } from './eviction/types.ts';

export interface CatalogDeps {
  /** Blocks that there is room for, at least 1. */
  slots: number;
  eviction: EvictionName;
  /** Its bytes are still in the slot, and will be overwritten next. */
  onEvicted?: (key: Key, slot: number) => void;
  /** It came, or is there no more. */
  onChange?: (kind: 'stored' | 'removed', key: Key) => void;
  /** It is worth keeping longer: see EvictionDeps. */
  onHot?: (key: Key, slot: number) => void;
}

export interface CatalogCounters {
  /** Blocks of prefixes that were asked for, all KV cache groups as one, and those of them that were there. */
  lookups: number;
  hits: number;
  stored: number;
  evicted: number;
  /** Keys that were not taken in, because all that there is was in use. */
  refused: number;
}

interface Block {
  slot: number;
  /** The block before it in its text, there or not; null: it is the first. */
  parent: Key | null;
  /** Its bytes have come. */
  ready: boolean;
  /** Loads under way. */
  readers: number;
}

export class BlockCatalog {
  readonly slots: number;
  readonly counters: CatalogCounters = { lookups: 0, hits: 0, stored: 0, evicted: 0, refused: 0 };
  readonly #deps: CatalogDeps;
  readonly #policy: EvictionPolicy;
  readonly #blocks = new Map<Key, Block>();
  readonly #free: number[];
  /** On their way, and worth keeping longer already: told when they have come. */
  readonly #hotComing = new Set<Key>();

  constructor(deps: CatalogDeps) {
    this.slots = deps.slots;
    this.#deps = deps;
    this.#free = Array.from({ length: deps.slots }, (_, i) => deps.slots - 1 - i);
    const { onHot } = deps;
    this.#policy = makeEviction(deps.eviction, {
      capacity: deps.slots,
      mayGo: (key) => {
        const { ready, readers } = this.#blocks.get(key)!;
        return ready && readers === 0;
      },
      onEvicted: (key) => this.#evicted(key),
      ...(onHot ? { onHot: (key: Key) => this.#hot(key) } : {}),
    });
  }

  /** Blocks there, or on their way. */
  get size(): number {
    return this.#blocks.size;
  }

  /** Blocks that are being read or written. */
  get inUse(): number {
    let count = 0;
    for (const { ready, readers } of this.#blocks.values()) if (!ready || readers > 0) count++;
    return count;
  }

  /** 'coming': someone writes it now. Changes nothing. */
  state(key: Key): 'ready' | 'coming' | 'absent' {
    const block = this.#blocks.get(key);
    return block ? (block.ready ? 'ready' : 'coming') : 'absent';
  }

  /** All that are there or on their way. */
  *blocks(): Iterable<Readonly<Block & { key: Key }>> {
    for (const [key, block] of this.#blocks) yield { key, ...block };
  }

  /** Keys in each queue of the policy; null: it has none. */
  get queues(): Readonly<Record<string, number>> | null {
    return this.#policy.sizes ?? null;
  }

  /** Those whose bytes are there, with their slots: the first to go roughly first. */
  *ready(): Iterable<readonly [key: Key, slot: number]> {
    for (const key of this.#policy.keys()) {
      const { slot, ready } = this.#blocks.get(key)!;
      if (ready) yield [key, slot];
    }
  }

  /** Where its bytes are; null: they are not there. Changes nothing. */
  slotOf(key: Key): number | null {
    const block = this.#blocks.get(key);
    return block?.ready ? block.slot : null;
  }

  /** Of a prefix of so many blocks so many were there. */
  countLookup(asked: number, found: number): void {
    this.counters.lookups += asked;
    this.counters.hits += found;
  }

  /** Keeps these, which are there, until completeLoad; returns their slots. They count as used, the first key latest. */
  prepareLoad(keys: readonly Key[]): number[] {
    for (let i = keys.length - 1; i >= 0; i--) this.#policy.touch(keys[i]!);
    return this.keep(keys);
  }

  /** The same, and it is no use of them. */
  keep(keys: readonly Key[]): number[] {
    return keys.map((key) => {
      const block = this.#blocks.get(key);
      invariant(block?.ready, () => `block ${key} is loaded, and is not there`);
      block.readers++;
      return block.slot;
    });
  }

  completeLoad(keys: readonly Key[]): void {
    for (const key of keys) {
      const block = this.#blocks.get(key);
      invariant(block && block.readers > 0, () => `block ${key} was not being loaded`);
      block.readers--;
    }
  }

  /**
   * A text goes on after this block: it and what is there before it are as new as what follows, which is not to take their
   * room. Keeps, until completeLoad, and returns what of that is there to be read.
   */
  keepText(last: Key | null): Key[] {
    const kept: Key[] = [];
    let block: Block | undefined;
    for (let key = last; key !== null; key = block.parent) {
      block = this.#blocks.get(key);
      if (!block) break;
      this.#policy.renew(key);
      if (!block.ready) continue;
      block.readers++;
      kept.push(key);
    }
    return kept;
  }

  /** Room for one that is not there, until completeStore; null: all that there is is in use. `parent`: the block before it. */
  prepareStore(key: Key, parent: Key | null = null): number | null {
    invariant(!this.#blocks.has(key), () => `block ${key} is there, or on its way`);
    if (!this.#policy.put(key, parent)) {
      this.counters.refused++;
      return null;
    }
    const slot = this.#free.pop();
    invariant(slot !== undefined, () => 'the eviction policy took in more keys than there are slots');
    this.#blocks.set(key, { slot, parent, ready: false, readers: 0 });
    return slot;
  }

  /** Its bytes came, or will not. */
  completeStore(key: Key, came: boolean): void {
    const block = this.#blocks.get(key);
    invariant(block && !block.ready, () => `block ${key} was not being stored`);
    if (came) {
      block.ready = true;
      this.counters.stored++;
      this.#deps.onChange?.('stored', key);
      if (this.#hotComing.delete(key)) this.#deps.onHot?.(key, block.slot);
    } else this.#forget(key, block);
  }

  /** Forgets all that nobody uses now. */
  clear(): void {
    for (const [key, block] of [...this.#blocks])
      if (block.ready && block.readers === 0) this.#forget(key, block);
  }

  /** Throws InternalError unless slots, blocks and the policy's keys agree. */
  checkIntegrity(): void {
    const slots = [...this.#free, ...[...this.#blocks.values()].map(({ slot }) => slot)];
    invariant(
      slots.length === this.slots && new Set(slots).size === slots.length,
      () => `${slots.length} slots are accounted for, of ${this.slots}`,
    );
    const kept = [...this.#policy.keys()];
    invariant(
      kept.length === this.#blocks.size && kept.every((key) => this.#blocks.has(key)),
      () => `the eviction policy keeps ${kept.length} keys, and there are ${this.#blocks.size} blocks`,
    );
  }

  #forget(key: Key, block: Block): void {
    this.#policy.remove(key);
    this.#leave(key, block);
  }

  #evicted(key: Key): void {
    const block = this.#blocks.get(key)!;
    this.#deps.onEvicted?.(key, block.slot);
    this.#leave(key, block);
    this.counters.evicted++;
  }

  #leave(key: Key, { slot, ready }: Block): void {
    if (ready) this.#deps.onChange?.('removed', key);
    this.#blocks.delete(key);
    this.#hotComing.delete(key);
    this.#free.push(slot);
  }

  #hot(key: Key): void {
    const block = this.#blocks.get(key);
    if (block?.ready) this.#deps.onHot?.(key, block.slot);
    else this.#hotComing.add(key);
  }
}
