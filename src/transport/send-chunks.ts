/**
 * Sends the chunks of one transfer from the holder: gathers them on the device, copies them into slab slots, and posts messages
 * to the reader. Gathers run ahead of the copies. A gather starts only once it has a slot: all readers share the staging
 * buffers, and a slow reader must not occupy one. Callers decide which blocks to send.
 */
import { copyBytes } from '../copy-bytes.ts';
import type { Clock } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import { checksum } from './checksum.ts';
import type { ChunkPlan } from './chunks.ts';
import { silence } from './deadlines.ts';
import type { ActiveLink } from './link.ts';
import type { HolderTimes, ReadMessage, StreamMessage, ToReader } from './messages.ts';
import type { ChunksToSend } from './send-stream.ts';
import { type SlotRing, slotView } from './slab.ts';
import type { BlockMemory, GatheredBlocks } from './types.ts';

/** Maximum number of concurrent gathers per transfer. */
const GATHERS_IN_FLIGHT = 2;

export interface SendingDeps {
  memory: BlockMemory;
  clock: Clock;
  /** Time without news of a free slot after which the connection is given up, ms. */
  silenceMs: number;
  link: ActiveLink;
  checksum: boolean;
  beforeChunkPosted: ((bytes: Uint8Array, chunk: { transferId: string; index: number }) => void) | null;
  post: (message: ToReader) => void;
}

/** The slab for one reader. */
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
  /** Resolves when the previous chunk has been copied. */
  before: Promise<void> | undefined;
  taken: ChunksToSend['taken'];
  revoked: ChunksToSend['revoked'];
}

interface GatheredChunk extends Gathered {
  chunk: ChunkPlan;
  index: number;
  slot: number;
}

/** A credit message was lost, or the reader is gone: the connection cannot be used any more. */
export class CreditLostError extends Error {}

export class ChunkSending {
  /** Aborted when the rest is no longer wanted. */
  readonly signal: AbortSignal;
  readonly #deps: SendingDeps;
  readonly #to: SlabOut;
  readonly #read: ReadMessage | StreamMessage;
  /** Chunks sent or about to be sent. */
  #chunks = 0;
  #posted: Promise<unknown> = Promise.resolve();

  constructor(deps: SendingDeps, to: SlabOut, read: ReadMessage | StreamMessage, signal: AbortSignal) {
    this.#deps = deps;
    this.#to = to;
    this.#read = read;
    this.signal = signal;
  }

  /** Resolves when all chunks taken so far have been posted. */
  get posted(): Promise<unknown> {
    return this.#posted;
  }

  /** Resolves when all chunks are copied into the slab; `posted` resolves when they are posted. Rejects if a gather does. */
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
      // Blocks may be reused once the READ has ended, so wait for copies that the device has not finished.
      await Promise.allSettled(sent);
    }
    await Promise.all(sent);
  }

  /** null if the rest is no longer wanted. Rejects with CreditLostError if no slot becomes free for too long. */
  async #slot(failed: AbortSignal): Promise<number | null> {
    const { ring } = this.#to;
    if (ring.hasFree) return ring.acquire(this.signal);
    const done = new AbortController();
    const taken = ring.acquire(AbortSignal.any([this.signal, failed])).finally(() => done.abort());
    if (await Promise.race([taken.then(() => false), this.#creditLost(done.signal)]))
      throw new CreditLostError();
    return taken;
  }

  /** Resolves true when no credit came for too long; false if the signal aborts first. */
  async #creditLost(done: AbortSignal): Promise<boolean> {
    const { clock, silenceMs } = this.#deps;
    const { ring } = this.#to;
    while (await silence(clock, silenceMs, () => ring.news, done)) {
      // The reader cannot return slots of chunks that are still being gathered or are on a slow link.
      if (ring.allAnnounced) return true;
    }
    return false;
  }

  /** Takes ownership of the slot. Resolves when the bytes are copied, after those of the previous chunk. */
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
   * Takes ownership of the gathered bytes and the slot. Copies, posts if no link is modelled, and releases the gathered bytes,
   * all synchronously. The release comes last, so that the reader does not wait for it. Resolves when posted.
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
      this.#to.ring.announce(slot, { transferId, index });
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
      copyBytes(target, source);
      const slabInEnd = clock.now();
      beforeChunkPosted?.(target, { transferId: this.#read.transferId, index });
      return { sum, slabInStart, slabInEnd };
    } catch (error) {
      ring.release(slot);
      throw error;
    }
  }
}

/** Marks a promise that is awaited later, or never, so that its rejection does not count as unhandled. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
