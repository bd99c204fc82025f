/**
 * An engine's blocks, shared by all its KV cache groups: the free queue, reference counts, and the hash of each cached block.
 * This is vLLM's BlockPool: block 0 is the null block, eviction is lazy (a freed block can be hit until it is allocated
 * again), and equal blocks are not merged. Knows ids, hashes and groups, but not requests or block contents.
 */
import { InternalError, invariant } from '../errors.ts';
import type { BlockHash } from './block-hash.ts';
import { BlockNames } from './block-names.ts';
import type { BlockResidency } from './block-residency.ts';
import { FreeQueue } from './free-queue.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

export class BlockPool {
  readonly numBlocks: number;
  readonly #free: FreeQueue;
  readonly #refCount: Int32Array;
  readonly #evictions: Uint32Array;
  readonly #names: BlockNames;
  /** Called when the last block of a group with a given hash loses it. No cost if null. */
  onRemoved: ((hash: BlockHash, group: number) => void) | null = null;
  readonly #residency: BlockResidency | null;
  /** Reused buffer: growing a new list each time would reallocate it several times. */
  readonly #taken: BlockId[] = [];

  /** `residency` records allocations, hits and evictions. */
  constructor(numBlocks: number, residency: BlockResidency | null = null) {
    this.numBlocks = numBlocks;
    this.#names = new BlockNames(numBlocks);
    this.#free = new FreeQueue(numBlocks);
    this.#free.fill();
    this.#refCount = new Int32Array(numBlocks);
    this.#evictions = new Uint32Array(numBlocks);
    this.#residency = residency;
  }

  /** The most blocks that a request can get: all but the null block. */
  get numUsable(): number {
    return this.numBlocks - 1;
  }

  get numFree(): number {
    return this.#free.size;
  }

  /** Changes whenever lookups by hash may return other blocks. */
  get nameChanges(): number {
    return this.#names.changes;
  }

  isFree(id: BlockId): boolean {
    return this.#free.has(id);
  }

  /** `evictions`: how often the block has lost its hash. */
  state(id: BlockId): { refCount: number; hash: BlockHash | null; evictions: number } {
    return { refCount: this.#refCount[id]!, hash: this.hashOf(id), evictions: this.#evictions[id]! };
  }

  hashOf(id: BlockId): BlockHash | null {
    return this.#names.hashOf(id);
  }

  /** The hashes of all cached blocks, by group. */
  hashes(numGroups: number): BlockHash[][] {
    const found = Array.from({ length: numGroups }, () => new Set<BlockHash>());
    for (let id = NULL_BLOCK + 1; id < this.numBlocks; id++)
      if (this.#names.has(id)) found[this.#names.groupOf(id)]!.add(this.#names.hashOf(id)!);
    return found.map((hashes) => [...hashes]);
  }

  /** The block of the group that was cached first under this hash, or null. */
  getCached(hash: BlockHash, group: number): BlockId | null {
    return this.#names.get(hash, group);
  }

  /** Takes `count` blocks from the front of the free queue and evicts their hashes. That many must be free. */
  allocate(count: number): BlockId[] {
    invariant(count <= this.numFree, () => `${count} blocks were taken from ${this.numFree} free ones`);
    const taken = this.#taken;
    for (let i = 0; i < count; i++) {
      const id = this.#free.shift()!;
      this.evict(id);
      this.#refCount[id] = 1;
      this.#residency?.allocated(id);
      taken[i] = id;
    }
    return taken.slice(0, count);
  }

  /** Adds a reference to each block: a prefix hit. The null block must not be among them. */
  touch(ids: Iterable<BlockId>): void {
    for (const id of ids) {
      if (this.#refCount[id] === 0) this.#free.remove(id);
      this.#refCount[id]!++;
      this.#residency?.hit(id);
    }
  }

  /** Removes a reference from each block, last block first, so that a chain's tail is evicted before its head. */
  free(ids: readonly BlockId[]): void {
    for (let i = ids.length - 1; i >= 0; i--) {
      const id = ids[i]!;
      if (id === NULL_BLOCK) continue;
      invariant(this.#refCount[id]! > 0, () => `block ${id} was freed more often than it was taken`);
      if (--this.#refCount[id]! === 0) this.#free.append(id);
    }
  }

  /** Gives a full block its hash. It must have none. */
  cache(id: BlockId, hash: BlockHash, group: number): void {
    invariant(!this.#names.has(id), () => `block ${id} was cached under a second hash`);
    this.#names.add(id, hash, group);
  }

  /** Removes a block's hash. Its references and its place in the free queue do not change. */
  evict(id: BlockId): void {
    this.#residency?.evicted(id);
    if (!this.#names.has(id)) return;
    this.#evictions[id]!++;
    const removed = this.onRemoved && { hash: this.#names.hashOf(id)!, group: this.#names.groupOf(id) };
    if (this.#names.remove(id) && removed) this.onRemoved!(removed.hash, removed.group);
  }

  /** Removes all hashes without calling onRemoved. Only while no block is in use. */
  clearHashes(): void {
    invariant(this.numFree === this.numUsable, () => 'the prefix cache was cleared while blocks are in use');
    for (let id = NULL_BLOCK + 1; id < this.numBlocks; id++) if (this.#names.has(id)) this.#evictions[id]!++;
    this.#names.clear();
    this.#residency?.clear();
  }

  /** Throws InternalError unless reference counts are as expected, and queue, counts and hashes agree. */
  checkIntegrity(expectedRefCounts: ReadonlyMap<BlockId, number>): void {
    // Arrays by id, not sets, for speed: a simulation may be checked after every event.
    const free = new Uint8Array(this.numBlocks);
    for (const id of this.#free.toArray()) free[id] = 1;
    const expected = new Int32Array(this.numBlocks);
    for (const [id, refs] of expectedRefCounts) expected[id] = refs;
    invariant(free[NULL_BLOCK] === 0, () => 'the null block is in the free queue');
    invariant(this.hashOf(NULL_BLOCK) === null, () => 'the null block has a hash');
    for (let id = NULL_BLOCK + 1; id < this.numBlocks; id++) {
      const refs = this.#refCount[id]!;
      if (refs !== expected[id] || (free[id] === 1) !== (refs === 0))
        throw new InternalError(
          `block ${id} counts ${refs} references, tables hold ${expected[id]}, and it is ${free[id] ? '' : 'not '}in the free queue`,
        );
    }
    this.#names.checkIntegrity();
  }
}
