/**
 * The shared memory between a holder and one of its readers: equal slots in a SharedArrayBuffer. The holder alone keeps
 * count of who uses which slot; the reader gives slots back by credit messages.
 */
import { ConfigError } from '../errors.ts';

export interface SlabShape {
  slots: number;
  slotBytes: number;
}

/** Room for a chunk and for any block, in whole words of 8 bytes. */
export function slotBytesFor(maxChunkBytes: number, blockBytes: readonly number[]): number {
  return Math.ceil(Math.max(maxChunkBytes, ...blockBytes) / 8) * 8;
}

export function createSlab({ slots, slotBytes }: SlabShape): SharedArrayBuffer {
  if (typeof SharedArrayBuffer === 'undefined') {
    throw new ConfigError(
      'SharedArrayBuffer is missing here, and blocks travel through it: serve the page with ' +
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

/** Free slots, given out in the order asked for: transfers that ask for one slot at a time share the slab by turns. */
export class SlotRing {
  /** Taken from its end: what came back last the processor's caches still have. */
  readonly #free: number[];
  readonly #inUse = new Set<number>();
  readonly #waiters = new Set<(slot: number) => void>();
  /** The chunk that was told to lie there, by slot. */
  readonly #told = new Map<number, string>();
  /** Slots told or come back. */
  news = 0;

  constructor(slots: number) {
    this.#free = Array.from({ length: slots }, (_, i) => slots - 1 - i);
  }

  /** null when the signal aborts before a slot is free. */
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

  /** The reader is told of the chunk in the slot, and says when it has taken it. */
  tell(slot: number, chunk: ChunkName): void {
    this.news++;
    this.#told.set(slot, nameOf(chunk));
  }

  /** No-op for another chunk than the slot's: it comes late, or for the second time. */
  taken(slot: number, chunk: ChunkName): void {
    if (this.#told.get(slot) !== nameOf(chunk)) return;
    this.#told.delete(slot);
    this.release(slot);
  }

  /** Every slot in use is the reader's to give back. */
  get allTold(): boolean {
    return this.#told.size === this.#inUse.size;
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
