/**
 * Free blocks in order of reuse; the front is the least recently used. A doubly linked list over arrays, so that a prefix
 * hit can remove a block from the middle in O(1) (vLLM's FreeKVCacheBlockQueue). Knows ids only.
 */
import { invariant } from '../errors.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

const OUTSIDE = -1;

export class FreeQueue {
  /** Valid for ids in the queue. */
  readonly #prev: Int32Array;
  /** OUTSIDE for ids not in the queue. */
  readonly #next: Int32Array;
  /** Index of the sentinel before the front and after the back. */
  readonly #end: number;
  #size = 0;

  /** Starts empty. Accepts ids 0 to capacity - 1. */
  constructor(capacity: number) {
    this.#end = capacity;
    this.#prev = new Int32Array(capacity + 1);
    this.#next = new Int32Array(capacity + 1).fill(OUTSIDE);
    this.#prev[capacity] = capacity;
    this.#next[capacity] = capacity;
  }

  get size(): number {
    return this.#size;
  }

  has(id: BlockId): boolean {
    return this.#next[id] !== OUTSIDE;
  }

  /** Adds every id except the null block, in order. The queue must be empty. */
  fill(): void {
    for (let id = NULL_BLOCK + 1; id < this.#end; id++) this.append(id);
  }

  append(id: BlockId): void {
    invariant(!this.has(id), () => `block ${id} is in the free queue already`);
    const last = this.#prev[this.#end]!;
    this.#next[last] = id;
    this.#prev[id] = last;
    this.#next[id] = this.#end;
    this.#prev[this.#end] = id;
    this.#size++;
  }

  remove(id: BlockId): void {
    invariant(this.has(id), () => `block ${id} is not in the free queue`);
    const prev = this.#prev[id]!;
    const next = this.#next[id]!;
    this.#next[prev] = next;
    this.#prev[next] = prev;
    this.#next[id] = OUTSIDE;
    this.#size--;
  }

  /** Removes and returns the front; null if empty. */
  shift(): BlockId | null {
    const front = this.#next[this.#end]!;
    if (front === this.#end) return null;
    this.remove(front);
    return front;
  }

  /** Front to back. Throws InternalError if the links or the size disagree. */
  toArray(): BlockId[] {
    const ids: BlockId[] = [];
    for (let id = this.#next[this.#end]!; id !== this.#end; id = this.#next[id]!) {
      invariant(
        this.#prev[this.#next[id]!] === id,
        () => `the free queue's links around block ${id} disagree`,
      );
      ids.push(id);
      invariant(ids.length <= this.#size, () => 'the free queue is longer than its size');
    }
    invariant(
      ids.length === this.#size,
      () => `the free queue has ${ids.length} blocks, its size says ${this.#size}`,
    );
    return ids;
  }
}
