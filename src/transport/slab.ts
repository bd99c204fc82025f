/**
 * The shared memory between a holder and one reader: equal slots in a SharedArrayBuffer. Only the holder tracks which slots are
 * in use; the reader returns them by credit messages.
 */
import { ConfigError } from '../errors.ts';

export interface SlabShape {
  slots: number;
  slotBytes: number;
}

/** Bytes of a slot: room for a chunk and for any block, rounded up to 8 bytes. */
export function slotBytesFor(maxChunkBytes: number, blockBytes: readonly number[]): number {
  return Math.ceil(Math.max(maxChunkBytes, ...blockBytes) / 8) * 8;
}

/** Throws ConfigError if SharedArrayBuffer is not available. */
export function createSlab({ slots, slotBytes }: SlabShape): SharedArrayBuffer {
  if (typeof SharedArrayBuffer === 'undefined') {
    throw new ConfigError(
      'SharedArrayBuffer is not available, and blocks are transferred through it: serve the page with ' +
        'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp.',
    );
  }
  return new SharedArrayBuffer(slots * slotBytes);
}

/** The first byteLength bytes of a slot. */
export function slotView(
  slab: SharedArrayBuffer,
  slotBytes: number,
  slot: number,
  byteLength: number,
): Uint8Array {
  return new Uint8Array(slab, slot * slotBytes, byteLength);
}

interface ChunkName {
  transferId: string;
  index: number;
}

const nameOf = ({ transferId, index }: ChunkName): string => `${index}:${transferId}`;

/** Allocates slots in order of request, so that transfers which ask for one slot at a time share the slab fairly. */
export class SlotRing {
  /** A stack: the slot returned last is most likely still in the CPU's caches. */
  readonly #free: number[];
  readonly #inUse = new Set<number>();
  readonly #waiters = new Set<(slot: number) => void>();
  /** By slot: the chunk whose message was posted to the reader. */
  readonly #announced = new Map<number, string>();
  /** Counts posted chunks and released slots. */
  news = 0;

  constructor(slots: number) {
    this.#free = Array.from({ length: slots }, (_, i) => slots - 1 - i);
  }

  /** Resolves to a free slot, or to null if the signal aborts first. */
  acquire(signal: AbortSignal): Promise<number | null> {
    if (signal.aborted) return Promise.resolve(null);
    const slot = this.#free.pop();
    if (slot !== undefined) {
      this.#inUse.add(slot);
      return Promise.resolve(slot);
    }
    return new Promise((resolve) => {
      const onAbort = () => {
        this.#waiters.delete(take);
        resolve(null);
      };
      const take = (freed: number) => {
        signal.removeEventListener('abort', onAbort);
        resolve(freed);
      };
      this.#waiters.add(take);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** The chunk in the slot is being posted to the reader, which must now return the slot. */
  announce(slot: number, chunk: ChunkName): void {
    this.news++;
    this.#announced.set(slot, nameOf(chunk));
  }

  /** The reader returned the slot. No-op if the slot has another chunk: the credit is late or a duplicate. */
  taken(slot: number, chunk: ChunkName): void {
    if (this.#announced.get(slot) !== nameOf(chunk)) return;
    this.#announced.delete(slot);
    this.release(slot);
  }

  /** Whether the reader has to return every slot in use. */
  get allAnnounced(): boolean {
    return this.#announced.size === this.#inUse.size;
  }

  get hasFree(): boolean {
    return this.#free.length > 0;
  }

  /** No-op for a slot that is not in use. */
  release(slot: number): void {
    if (!this.#inUse.has(slot)) return;
    this.news++;
    const [first] = this.#waiters;
    if (first) {
      this.#waiters.delete(first);
      first(slot);
    } else {
      this.#inUse.delete(slot);
      this.#free.push(slot);
    }
  }

  get inUse(): number {
    return this.#inUse.size;
  }
}
