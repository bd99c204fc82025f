/**
 * The queue of blocks to write from a store's memory to a lower tier. A few are written concurrently, in order; the number
 * waiting is bounded. Blocks whose write fails are skipped, and for a while no more are accepted.
 */
import type { Clock } from '../engine/types.ts';
import type { StoreKey } from './keys.ts';
import { bytesIn } from './slots.ts';

/** Number of concurrent writes. */
const WRITERS = 4;
/** Bound on waiting blocks, exceeded by at most one block. Further blocks are skipped. */
const MOST_WAITING_BYTES = 16 * 2 ** 20;
/** No write is tried for this long after a failed one. */
const REST_MS = 10_000;

/** A block to write. */
export interface Written {
  kv: readonly Uint8Array[];
  /** The block before it in its sequence; null if it is the first or not known. */
  parent: StoreKey | null;
}

export interface WriteQueueDeps {
  /** Bytes of KV in a block. */
  blockBytes: number;
  /** Resolves to false if the tier does not want the block. Rejects if it cannot be written. */
  write: (key: StoreKey, written: Written) => Promise<boolean>;
  clock: Pick<Clock, 'now'>;
  counters: WriteCounters;
}

export interface WriteCounters {
  written: number;
  /** Bytes of these blocks' KV. */
  writtenBytes: number;
  /** Total time of successful writes, ms. Concurrent ones count separately. */
  writeMs: number;
  /** Blocks that were not written because the tier failed or did not keep up. */
  leftOut: number;
}

export class WriteQueue {
  readonly #deps: WriteQueueDeps;
  readonly #waiting = new Map<StoreKey, Written>();
  readonly #writing = new Map<StoreKey, Written & { done: Promise<void> }>();
  #restUntilMs = 0;

  constructor(deps: WriteQueueDeps) {
    this.#deps = deps;
  }

  /** Further blocks would be skipped. */
  get isFull(): boolean {
    return this.#waiting.size * this.#deps.blockBytes >= MOST_WAITING_BYTES;
  }

  has(key: StoreKey): boolean {
    return this.#waiting.has(key) || this.#writing.has(key);
  }

  /** Copies a queued block into `into`. False if it is not queued. */
  copy(key: StoreKey, into: readonly Uint8Array[]): boolean {
    const written = this.#waiting.get(key) ?? this.#writing.get(key);
    if (!written) return false;
    for (const [i, part] of written.kv.entries()) into[i]!.set(part);
    return true;
  }

  /** Queues a block; copies the parts now. The block must not be queued already. */
  add(key: StoreKey, { kv, parent }: Written): void {
    if (this.isFull || this.#deps.clock.now() < this.#restUntilMs) {
      this.#deps.counters.leftOut++;
      return;
    }
    this.#waiting.set(key, { kv: kv.map((part) => part.slice()), parent });
    this.#next();
  }

  /** Resolves when no writes are pending. */
  async flush(): Promise<void> {
    while (this.#writing.size > 0) await Promise.all([...this.#writing.values()].map(({ done }) => done));
  }

  #next(): void {
    if (this.#writing.size >= WRITERS) return;
    const [first] = this.#waiting;
    if (!first) return;
    const [key, written] = first;
    this.#waiting.delete(key);
    const done = this.#write(key, written).finally(() => {
      this.#writing.delete(key);
      this.#next();
    });
    this.#writing.set(key, { ...written, done });
  }

  async #write(key: StoreKey, written: Written): Promise<void> {
    const { write, clock, counters } = this.#deps;
    const begunMs = clock.now();
    try {
      if (!(await write(key, written))) return;
      counters.written++;
      counters.writtenBytes += bytesIn(written.kv);
      counters.writeMs += clock.now() - begunMs;
    } catch {
      // `write` has reported why.
      counters.leftOut += 1 + this.#waiting.size;
      this.#waiting.clear();
      this.#restUntilMs = clock.now() + REST_MS;
    }
  }
}
