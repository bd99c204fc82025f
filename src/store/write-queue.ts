/**
 * Blocks on their way from a store's memory to a tier below it: a few are written at once, in order; so many wait as there is
 * room for. What fails is left out, and for a while nothing more is taken.
 */
import type { BlockHash } from '../engine/block-hash.ts';
import type { Clock } from '../engine/types.ts';
import { bytesIn } from './slots.ts';

/** Blocks being written at once. */
const WRITERS = 4;
/** Of blocks that wait for it, which one block exceeds at most: more are left out. */
const MOST_WAITING_BYTES = 16 * 2 ** 20;
/** After a write that failed none is tried for so long. */
const REST_MS = 10_000;

/** A block to write. */
export interface Written {
  kv: readonly Uint8Array[];
  /** The block before it in its text, as far as that is known. */
  parent: BlockHash | null;
}

export interface WriteQueueDeps {
  /** Of KV, a block. */
  blockBytes: number;
  /** False: it is not to be there. Rejects where it cannot be written. */
  write: (hash: BlockHash, written: Written) => Promise<boolean>;
  clock: Pick<Clock, 'now'>;
  counters: WriteCounters;
}

export interface WriteCounters {
  written: number;
  /** Of these blocks' KV. */
  writtenBytes: number;
  /** Milliseconds of the writes that ended well; those under way at once count each. */
  writeMs: number;
  /** Blocks that were not written: what lies below failed, or did not keep up. */
  leftOut: number;
}

export class WriteQueue {
  readonly #deps: WriteQueueDeps;
  readonly #waiting = new Map<BlockHash, Written>();
  readonly #writing = new Map<BlockHash, Written & { done: Promise<void> }>();
  #restUntilMs = 0;

  constructor(deps: WriteQueueDeps) {
    this.#deps = deps;
  }

  /** More would be left out. */
  get isFull(): boolean {
    return this.#waiting.size * this.#deps.blockBytes >= MOST_WAITING_BYTES;
  }

  has(hash: BlockHash): boolean {
    return this.#waiting.has(hash) || this.#writing.has(hash);
  }

  /** A block that is on its way, into these; false: it is not. */
  copy(hash: BlockHash, into: readonly Uint8Array[]): boolean {
    const written = this.#waiting.get(hash) ?? this.#writing.get(hash);
    if (!written) return false;
    for (const [group, part] of written.kv.entries()) into[group]!.set(part);
    return true;
  }

  /** Later; the parts are copied now. One that is on its way already must not be added. */
  add(hash: BlockHash, { kv, parent }: Written): void {
    if (this.isFull || this.#deps.clock.now() < this.#restUntilMs) {
      this.#deps.counters.leftOut++;
      return;
    }
    this.#waiting.set(hash, { kv: kv.map((part) => part.slice()), parent });
    this.#next();
  }

  /** Resolves when nothing waits to be written. */
  async flush(): Promise<void> {
    while (this.#writing.size > 0) await Promise.all([...this.#writing.values()].map(({ done }) => done));
  }

  #next(): void {
    if (this.#writing.size >= WRITERS) return;
    const [first] = this.#waiting;
    if (!first) return;
    const [hash, written] = first;
    this.#waiting.delete(hash);
    const done = this.#write(hash, written).finally(() => {
      this.#writing.delete(hash);
      this.#next();
    });
    this.#writing.set(hash, { ...written, done });
  }

  async #write(hash: BlockHash, written: Written): Promise<void> {
    const { write, clock, counters } = this.#deps;
    const begunMs = clock.now();
    try {
      if (!(await write(hash, written))) return;
      counters.written++;
      counters.writtenBytes += bytesIn(written.kv);
      counters.writeMs += clock.now() - begunMs;
    } catch {
      // Whoever writes tells why.
      counters.leftOut += 1 + this.#waiting.size;
      this.#waiting.clear();
      this.#restUntilMs = clock.now() + REST_MS;
    }
  }
}
