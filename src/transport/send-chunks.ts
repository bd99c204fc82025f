/**
 * One transfer's chunks on their way from the holder: gathered on the device, copied into a slab slot, told to the reader.
 * Gathers run ahead of the copies. Each has its slot before it begins: all readers share the staging buffers, and none may
 * keep one while it is slow. Which blocks those are, others decide.
 */
import type { Clock } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import { checksum } from './checksum.ts';
import type { ChunkPlan } from './chunks.ts';
import { silence } from './deadlines.ts';
import type { LinkInForce } from './link.ts';
import type { HolderTimes, ReadMessage, StreamMessage, ToReader } from './messages.ts';
import type { ChunksToSend } from './send-stream.ts';
import { type SlotRing, slotView } from './slab.ts';
import type { BlockMemory, GatheredBlocks } from './types.ts';

/** Gathers that a transfer has under way. */
const GATHERS_IN_FLIGHT = 2;

export interface SendingDeps {
  memory: BlockMemory;
  clock: Clock;
  /** Milliseconds without a free slot after which the connection is of no more use. */
  silenceMs: number;
  link: LinkInForce;
  checksum: boolean;
  beforeChunkPosted: ((bytes: Uint8Array, chunk: { transferId: string; index: number }) => void) | null;
  post: (message: ToReader) => void;
}

/** The slab towards a reader. */
export interface SlabOut {
  epoch: number;
  slab: SharedArrayBuffer;
  slotBytes: number;
  ring: SlotRing;
}

interface Gathered {
  gathered: GatheredBlocks;
  startMs: number;
  endMs: number;
}

interface NextChunk {
  chunk: ChunkPlan;
  slot: number;
  /** The chunk before is copied. */
  before: Promise<void> | undefined;
  taken: ChunksToSend['taken'];
  revoked: ChunksToSend['revoked'];
}

interface GatheredChunk extends Gathered {
  chunk: ChunkPlan;
  index: number;
  slot: number;
}

/** A message that a slot is free was lost, or its reader is gone: the connection is of no more use. */
export class CreditLostError extends Error {}

export class ChunkSending {
  /** Aborts when nobody wants the rest. */
  readonly signal: AbortSignal;
  readonly #deps: SendingDeps;
  readonly #to: SlabOut;
  readonly #read: ReadMessage | StreamMessage;
  /** Sent, or about to be. */
  #chunks = 0;
  #posted: Promise<unknown> = Promise.resolve();

  constructor(deps: SendingDeps, to: SlabOut, read: ReadMessage | StreamMessage, signal: AbortSignal) {
    this.#deps = deps;
    this.#to = to;
    this.#read = read;
    this.signal = signal;
  }

  /** Resolves when all that were taken until now are posted. */
  get posted(): Promise<unknown> {
    return this.#posted;
  }

  /** Resolves when all are taken; they are posted when `posted` resolves. Rejects when a gather does. */
  async send({ chunks, taken, revoked }: ChunksToSend): Promise<void> {
    const sent: Promise<void>[] = [];
    const failed = new AbortController();
    try {
      for (const [i, chunk] of chunks.entries()) {
        await sent[i - GATHERS_IN_FLIGHT];
        const slot = await this.#slot(failed.signal);
        if (slot === null) break;
        const one = this.#gatherAndSend({ chunk, slot, before: sent[i - 1], taken, revoked });
        one.catch(() => failed.abort());
        sent.push(one);
      }
    } finally {
      // Blocks may be reused once the READ has ended: wait for what the device still copies.
      await Promise.allSettled(sent);
    }
    await Promise.all(sent);
  }

  /** null: nobody wants the rest. Rejects with CreditLostError when no slot comes back for too long. */
  async #slot(failed: AbortSignal): Promise<number | null> {
    const { ring } = this.#to;
    if (ring.hasFree) return ring.acquire(this.signal);
    const over = new AbortController();
    const taken = ring.acquire(AbortSignal.any([this.signal, failed])).finally(() => over.abort());
    if (await Promise.race([taken.then(() => false), this.#creditLost(over.signal)]))
      throw new CreditLostError();
    return taken;
  }

  /** false when the signal aborts first. */
  async #creditLost(over: AbortSignal): Promise<boolean> {
    const { clock, silenceMs } = this.#deps;
    const { ring } = this.#to;
    while (await silence(clock, silenceMs, () => ring.news, over)) {
      // A chunk that is still gathered, or on a slow link, is not the reader's to give back.
      if (ring.allTold) return true;
    }
    return false;
  }

  /** Takes over the slot. Resolves when the bytes are copied, after those of the chunk before. */
  async #gatherAndSend({ chunk, slot, before, taken, revoked }: NextChunk): Promise<void> {
    const drop = (part?: Gathered) => {
      part?.gathered.release();
      this.#to.ring.release(slot);
    };
    let part: Gathered | undefined;
    try {
      part = await this.#gather(chunk, revoked);
      await before;
    } catch (error) {
      drop(part);
      throw error;
    }
    if (this.signal.aborted) return drop(part);
    taken?.(chunk);
    const index = this.#chunks++;
    const sent = this.#sendChunk({ ...part, chunk, index, slot });
    this.#posted = handled(Promise.all([this.#posted, sent]));
  }

  async #gather({ group, blockIds }: ChunkPlan, revoked?: AbortSignal): Promise<Gathered> {
    const startMs = this.#deps.clock.now();
    const gathered = await this.#deps.memory.gather(group, blockIds, revoked);
    return { gathered, startMs, endMs: this.#deps.clock.now() };
  }

  /**
   * Takes over the gathered bytes and the slot. Copies at once, without a link posts at once; resolves when posted. The
   * bytes are given back last: the reader need not wait for that.
   */
  async #sendChunk(part: GatheredChunk): Promise<void> {
    const posted = this.#copyAndPost(part);
    part.gathered.release();
    await posted;
  }

  async #copyAndPost(part: GatheredChunk): Promise<void> {
    const read = this.#read;
    const { chunk, index, gathered, startMs, endMs, slot } = part;
    const { transferId } = read;
    const bytes = chunk.byteLength;
    const { sum, slabInStart, slabInEnd } = this.#copyIn(part);
    const readbackStart = Math.max(startMs, endMs - gathered.readbackMs);
    const submitted = Math.max(startMs, readbackStart - gathered.waitMs);
    const times = {
      waitStart: index === 0 && read.kind === 'read' ? Math.min(read.postedAt, startMs) : startMs,
      gatherStart: Math.max(startMs, submitted - gathered.gatherMs),
      submitted,
      readbackStart,
      mapped: endMs,
      slabInStart,
      slabInEnd,
    };
    const post = (linkTimes: HolderTimes['link']) => {
      this.#to.ring.tell(slot, { transferId, index });
      this.#deps.post({
        kind: 'chunk',
        epoch: this.#to.epoch,
        transferId,
        index,
        slot,
        byteLength: bytes,
        group: chunk.group,
        first: chunk.first,
        count: chunk.blockIds.length,
        ...(read.kind === 'stream' ? { blockIds: chunk.blockIds } : {}),
        times: { ...times, link: linkTimes },
        checksum: sum,
        descriptors: gathered.descriptors,
      });
    };
    const link = this.#deps.link.queue;
    if (!link) return post(null);
    const delivery = await link.deliver(bytes, this.signal);
    if (!delivery) return this.#to.ring.release(slot);
    post({ start: delivery.startMs, arrival: delivery.arrivalMs });
  }

  #copyIn({ chunk, index, gathered, slot }: GatheredChunk) {
    const { clock, beforeChunkPosted } = this.#deps;
    const { slab, slotBytes, ring } = this.#to;
    try {
      const source = gathered.bytes.subarray(0, chunk.byteLength);
      invariant(
        source.length === chunk.byteLength,
        () => `gathered ${source.length} of ${chunk.byteLength} bytes`,
      );
      const sum = this.#deps.checksum ? checksum(source) : null;
      const slabInStart = clock.now();
      const target = slotView(slab, slotBytes, slot, chunk.byteLength);
      target.set(source);
      const slabInEnd = clock.now();
      beforeChunkPosted?.(target, { transferId: this.#read.transferId, index });
      return { sum, slabInStart, slabInEnd };
    } catch (error) {
      ring.release(slot);
      throw error;
    }
  }
}

/** Keeps a promise that is awaited later, or never, from counting as unhandled meanwhile. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
