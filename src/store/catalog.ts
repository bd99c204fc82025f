/**
 * The catalog of a store's memory: keys (keys.ts), their slots, and which are in use. A block can be read once its bytes have
 * arrived, and is not evicted while it is being read or written. Knows no bytes, engines or folders. The operations are those
 * of vLLM's OffloadingManager: lookup, prepareLoad, completeLoad, prepareStore, completeStore.
 */
import type { EvictionName } from '../config/store.ts';
import { invariant } from '../errors.ts';
import { makeEviction } from './eviction/make.ts';
import type { EvictionPolicy } from './eviction/types.ts';
import type { StoreKey } from './keys.ts';

export interface CatalogDeps {
  /** Capacity in blocks, at least 1. */
  slots: number;
  eviction: EvictionName;
  /** Called during an eviction: the bytes are still in the slot, but will be overwritten next. */
  onEvicted?: (key: StoreKey, slot: number) => void;
  /** Called when a block has arrived ('stored') or is gone ('removed'). */
  onChange?: (kind: 'stored' | 'removed', key: StoreKey) => void;
  /** Called when a block has proved worth keeping: see EvictionDeps. */
  onHot?: (key: StoreKey, slot: number) => void;
}

export interface CatalogCounters {
  /** Blocks of requested prefixes (all KV cache groups count as one), and how many were found. */
  lookups: number;
  hits: number;
  stored: number;
  evicted: number;
  /** Keys that were not accepted because every block was in use. */
  refused: number;
}

interface Block {
  slot: number;
  /** The block before it in its sequence, whether present or not; null if it is the first. */
  parent: StoreKey | null;
  /** Its bytes have arrived. */
  ready: boolean;
  /** Number of loads in progress. */
  readers: number;
}

export class BlockCatalog {
  readonly slots: number;
  readonly counters: CatalogCounters = { lookups: 0, hits: 0, stored: 0, evicted: 0, refused: 0 };
  readonly #deps: CatalogDeps;
  #policy: EvictionPolicy;
  readonly #blocks = new Map<StoreKey, Block>();
  /** Slots that were used and are free again. */
  readonly #free: number[] = [];
  /** Slots from this one on were never used. A list of them would take memory and time where nothing is stored. */
  #unused = 0;
  /** Blocks still arriving that are already hot: reported when they have arrived. */
  readonly #hotComing = new Set<StoreKey>();

  constructor(deps: CatalogDeps) {
    this.slots = deps.slots;
    this.#deps = deps;
    this.#policy = this.#newPolicy();
  }

  /** Blocks present or arriving. */
  get size(): number {
    return this.#blocks.size;
  }

  /** Blocks that are being read or written. */
  get inUse(): number {
    let count = 0;
    for (const { ready, readers } of this.#blocks.values()) if (!ready || readers > 0) count++;
    return count;
  }

  /** 'coming': being written now. Changes nothing. */
  state(key: StoreKey): 'ready' | 'coming' | 'absent' {
    const block = this.#blocks.get(key);
    return block ? (block.ready ? 'ready' : 'coming') : 'absent';
  }

  /** All blocks present or arriving. */
  *blocks(): Iterable<Readonly<Block & { key: StoreKey }>> {
    for (const [key, block] of this.#blocks) yield { key, ...block };
  }

  /** Number of keys in each queue of the eviction policy; null if it does not report them. */
  get queues(): Readonly<Record<string, number>> | null {
    return this.#policy.sizes ?? null;
  }

  /** Blocks whose bytes are present, with their slots, roughly in order of eviction. */
  *ready(): Iterable<readonly [key: StoreKey, slot: number]> {
    for (const key of this.#policy.keys()) {
      const { slot, ready } = this.#blocks.get(key)!;
      if (ready) yield [key, slot];
    }
  }

  /** The block's slot; null if its bytes are not present. Changes nothing. */
  slotOf(key: StoreKey): number | null {
    const block = this.#blocks.get(key);
    return block?.ready ? block.slot : null;
  }

  /** Counts a lookup of a prefix of `requested` blocks, of which `found` were present. */
  countLookup(requested: number, found: number): void {
    this.counters.lookups += requested;
    this.counters.hits += found;
  }

  /** Pins these ready blocks until completeLoad and returns their slots. Counts as a use, the first key most recent. */
  prepareLoad(keys: readonly StoreKey[]): number[] {
    for (let i = keys.length - 1; i >= 0; i--) this.#policy.touch(keys[i]!);
    return this.keep(keys);
  }

  /** The same, without counting as a use. */
  keep(keys: readonly StoreKey[]): number[] {
    return keys.map((key) => {
      const block = this.#blocks.get(key);
      invariant(block?.ready, () => `block ${key} is loaded, but is not there`);
      block.readers++;
      return block.slot;
    });
  }

  completeLoad(keys: readonly StoreKey[]): void {
    for (const key of keys) {
      const block = this.#blocks.get(key);
      invariant(block && block.readers > 0, () => `block ${key} was not being loaded`);
      block.readers--;
    }
  }

  /**
   * A sequence continues after this block: renews the block and those before it, so that later blocks do not evict them. Pins
   * those that are ready, until completeLoad, and returns their keys.
   */
  keepText(last: StoreKey | null): StoreKey[] {
    const kept: StoreKey[] = [];
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

  /** Allocates a slot for an absent block, to be written until completeStore; null if every block is in use. */
  prepareStore(key: StoreKey, parent: StoreKey | null = null): number | null {
    invariant(!this.#blocks.has(key), () => `block ${key} is already there or arriving`);
    if (!this.#policy.put(key, parent)) {
      this.counters.refused++;
      return null;
    }
    const slot = this.#free.pop() ?? this.#unused++;
    invariant(slot < this.slots, () => 'the eviction policy accepted more keys than there are slots');
    this.#blocks.set(key, { slot, parent, ready: false, readers: 0 });
    return slot;
  }

  /** Ends prepareStore: the bytes have arrived (`succeeded`), or will not. */
  completeStore(key: StoreKey, succeeded: boolean): void {
    const block = this.#blocks.get(key);
    invariant(block && !block.ready, () => `block ${key} was not being stored`);
    if (succeeded) {
      block.ready = true;
      this.counters.stored++;
      this.#deps.onChange?.('stored', key);
      if (this.#hotComing.delete(key)) this.#deps.onHot?.(key, block.slot);
    } else this.#forget(key, block);
  }

  /** Removes all blocks that are not in use, and forgets which blocks were evicted or used before. */
  clear(): void {
    for (const [key, block] of [...this.#blocks])
      if (block.ready && block.readers === 0) this.#leave(key, block);
    this.#policy = this.#newPolicy();
    for (const [key, { parent }] of this.#blocks) this.#policy.put(key, parent);
  }

  /** Throws InternalError unless slots, blocks and the policy's keys agree. */
  checkIntegrity(): void {
    const slots = [...this.#free, ...[...this.#blocks.values()].map(({ slot }) => slot)];
    invariant(
      slots.length === this.#unused && new Set(slots).size === slots.length,
      () => `${slots.length} slots are accounted for, not ${this.#unused}`,
    );
    const kept = [...this.#policy.keys()];
    invariant(
      kept.length === this.#blocks.size && kept.every((key) => this.#blocks.has(key)),
      () => `the eviction policy keeps ${kept.length} keys, and there are ${this.#blocks.size} blocks`,
    );
  }

  #newPolicy(): EvictionPolicy {
    const { slots, eviction, onHot } = this.#deps;
    return makeEviction(eviction, {
      capacity: slots,
      mayGo: (key) => {
        const { ready, readers } = this.#blocks.get(key)!;
        return ready && readers === 0;
      },
      onEvicted: (key) => this.#evicted(key),
      ...(onHot ? { onHot: (key: StoreKey) => this.#hot(key) } : {}),
    });
  }

  #forget(key: StoreKey, block: Block): void {
    this.#policy.remove(key);
    this.#leave(key, block);
  }

  #evicted(key: StoreKey): void {
    const block = this.#blocks.get(key)!;
    this.#deps.onEvicted?.(key, block.slot);
    this.#leave(key, block);
    this.counters.evicted++;
  }

  #leave(key: StoreKey, { slot, ready }: Block): void {
    if (ready) this.#deps.onChange?.('removed', key);
    this.#blocks.delete(key);
    this.#hotComing.delete(key);
    this.#free.push(slot);
  }

  #hot(key: StoreKey): void {
    const block = this.#blocks.get(key);
    if (block?.ready) this.#deps.onHot?.(key, block.slot);
    else this.#hotComing.add(key);
  }
}
