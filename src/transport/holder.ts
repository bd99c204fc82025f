/**
 * The holder's half towards one reader: answers its handshake with a slab, and serves its READs: gather on the device,
 * copy into a slab slot, message. Which READs may be served is the gate's business; serving never waits for own reads.
 */
import type { Clock, TransferOutcome } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import { checksum } from './checksum.ts';
import { type ChunkPlan, cutIntoChunks } from './chunks.ts';
import type { HandshakeSide } from './compatibility.ts';
import { impossibleRead } from './impossible-read.ts';
import { LinkQueue, type LinkSpec } from './link.ts';
import type {
  HelloMessage,
  HolderTimes,
  ReadEndedMessage,
  ReadMessage,
  StreamMessage,
  ToHolder,
  ToReader,
} from './messages.ts';
import { type ChunksToSend, sendStream } from './send-stream.ts';
import { createSlab, SlotRing, slotBytesFor, slotView } from './slab.ts';
import type { BlockMemory, GatheredBlocks, ReadGate, StreamEnd, StreamGate } from './types.ts';

/** Gathers that a transfer has under way or waiting for a slot. */
const GATHERS_IN_FLIGHT = 2;

export interface HolderDeps {
  own: HandshakeSide;
  memory: BlockMemory;
  clock: Clock;
  gate: () => ReadGate;
  streamGate: () => StreamGate;
  /** The link in force; a change takes hold with the next chunk. */
  link: () => LinkSpec | null;
  maxChunkBytes: number;
  slots: number;
  checksum: boolean;
  beforeChunkPosted: ((bytes: Uint8Array, chunk: { transferId: string; index: number }) => void) | null;
  post: (message: ToReader) => void;
}

interface Connection {
  epoch: number;
  slab: SharedArrayBuffer;
  slotBytes: number;
  maxChunkBytes: number;
  ring: SlotRing;
  /** Made from linkSpec; null when there is none. */
  link: LinkQueue | null;
  linkSpec: LinkSpec | null;
  transfers: Map<string, AbortController>;
}

interface Serving {
  connection: Connection;
  read: ReadMessage | StreamMessage;
  signal: AbortSignal;
  /** Chunks sent, or about to be. */
  chunks: number;
  /** Resolves when all of them are posted. */
  posted: Promise<unknown>;
}

interface OpenedRead {
  /** null: all was sent. */
  send: (serving: Serving) => Promise<StreamEnd | null>;
  finished: () => void;
}

interface Gathered {
  gathered: GatheredBlocks;
  startMs: number;
  endMs: number;
}

interface GatheredChunk extends Gathered {
  chunk: ChunkPlan;
  index: number;
  slot: number;
}

export class HolderHalf {
  readonly #deps: HolderDeps;
  #connection: Connection | null = null;

  constructor(deps: HolderDeps) {
    this.#deps = deps;
  }

  onMessage(message: ToHolder): void {
    if (message.kind === 'hello') {
      this.#welcome(message);
      return;
    }
    const connection = this.#connection;
    if (connection?.epoch !== message.epoch) {
      if (message.kind === 'read' || message.kind === 'stream')
        this.#end(message, 'dead', 'the holder no longer knows this connection.');
      return;
    }
    if (message.kind === 'credit') connection.ring.release(message.slot);
    else if (message.kind === 'cancel') connection.transfers.get(message.transferId)?.abort();
    else void this.#serve(connection, message);
  }

  /** Stops serving and drops the slab; blocks stay pinned until the device has finished with them. */
  close(): void {
    const connection = this.#connection;
    this.#connection = null;
    for (const transfer of connection?.transfers.values() ?? []) transfer.abort();
  }

  /** Zeros before the handshake. */
  get slabShape(): { slots: number; slotBytes: number } {
    return this.#connection
      ? { slots: this.#deps.slots, slotBytes: this.#connection.slotBytes }
      : { slots: 0, slotBytes: 0 };
  }

  /** For tests and integrity checks. */
  get slotsInUse(): number {
    return this.#connection?.ring.inUse ?? 0;
  }

  #welcome(hello: HelloMessage): void {
    this.close();
    const { own, slots, memory, clock } = this.#deps;
    const maxChunkBytes = Math.min(this.#deps.maxChunkBytes, hello.maxChunkBytes);
    const slotBytes = slotBytesFor(maxChunkBytes, memory.blockBytes);
    const slab = createSlab({ slots, slotBytes });
    this.#connection = {
      epoch: hello.epoch,
      slab,
      slotBytes,
      maxChunkBytes,
      ring: new SlotRing(slots),
      link: null,
      linkSpec: null,
      transfers: new Map(),
    };
    const { identity, factors } = own;
    const { epoch } = hello;
    this.#deps.post({ kind: 'welcome', epoch, identity, factors, slab, slots, slotBytes, now: clock.now() });
  }

  async #serve(connection: Connection, read: ReadMessage | StreamMessage): Promise<void> {
    const underWay = connection.transfers.has(read.transferId);
    const wrong = underWay
      ? `transfer ${read.transferId} is under way.`
      : impossibleRead(read, this.#deps.memory.numBlocks);
    if (wrong) return this.#end(read, 'failed', wrong);
    let opened: OpenedRead | StreamEnd;
    try {
      opened = this.#open(read);
    } catch (error) {
      return this.#end(read, 'failed', `the holder could not decide on the READ: ${messageOf(error)}`);
    }
    if ('outcome' in opened) return this.#end(read, opened.outcome, opened.message);

    const transfer = new AbortController();
    connection.transfers.set(read.transferId, transfer);
    const { signal } = transfer;
    const serving: Serving = { connection, read, signal, chunks: 0, posted: Promise.resolve() };
    let end: Pick<ReadEndedMessage, 'outcome' | 'message'> = { outcome: 'done', message: '' };
    try {
      end = (await opened.send(serving)) ?? end;
      await serving.posted;
    } catch (error) {
      end = { outcome: 'failed', message: `the holder could not give its blocks: ${messageOf(error)}` };
    }
    connection.transfers.delete(read.transferId);
    opened.finished();
    if (!signal.aborted) this.#end(read, end.outcome, end.message);
  }

  /** Asks the gate; how to send the blocks, or why they are refused. */
  #open(read: ReadMessage | StreamMessage): OpenedRead | StreamEnd {
    const { gate, streamGate, memory } = this.#deps;
    const cut = (blockIds: ReadMessage['blockIds'], { connection }: Serving) =>
      cutIntoChunks(blockIds, memory.blockBytes, connection.maxChunkBytes);
    if (read.kind === 'stream') {
      const stream = streamGate()(read.remoteRequestId);
      const send = (serving: Serving) =>
        sendStream({
          ...{ blockIndexes: read.blockIndexes, stream, signal: serving.signal },
          cut: (blockIds) => cut(blockIds, serving),
          send: (batch) => this.#sendChunks(serving, batch),
        });
      return { finished: () => stream.finished(), send };
    }
    const blocks = read.blockIds.flatMap((ids, group) => ids.map((blockId) => ({ group, blockId })));
    const decision = gate()(read.remoteRequestId, blocks);
    if (!decision.allow) return decision;
    const send = async (serving: Serving) => {
      await this.#sendChunks(serving, { chunks: cut(read.blockIds, serving) });
      return null;
    };
    return { finished: decision.finished, send };
  }

  /** Resolves when all are taken; they are posted when serving.posted resolves. */
  async #sendChunks(serving: Serving, { chunks, taken, revoked }: ChunksToSend): Promise<void> {
    const { connection, signal } = serving;
    const gathers = new Map<number, Promise<Gathered>>();
    try {
      for (const [i, chunk] of chunks.entries()) {
        for (let ahead = i; ahead < Math.min(i + GATHERS_IN_FLIGHT, chunks.length); ahead++) {
          if (!gathers.has(ahead)) gathers.set(ahead, handled(this.#gather(chunks[ahead]!, revoked)));
        }
        const part = await gathers.get(i)!;
        const slot = await connection.ring.acquire(signal);
        if (slot === null) return;
        gathers.delete(i);
        taken?.(chunk);
        const index = serving.chunks++;
        const sent = this.#sendChunk(serving, { ...part, chunk, index, slot });
        serving.posted = handled(Promise.all([serving.posted, sent]));
      }
    } finally {
      // Blocks may be reused once the READ has ended: wait for what the device still copies. Each gives its staging
      // buffer back by itself, for the next may be waiting for just that one.
      const release = ({ gathered }: Gathered) => gathered.release();
      await Promise.all([...gathers.values()].map((gather) => gather.then(release, () => {})));
    }
  }

  async #gather({ group, blockIds }: ChunkPlan, revoked?: AbortSignal): Promise<Gathered> {
    const startMs = this.#deps.clock.now();
    const gathered = await this.#deps.memory.gather(group, blockIds, revoked);
    return { gathered, startMs, endMs: this.#deps.clock.now() };
  }

  /** Takes over the gathered bytes and the slot. Copies at once, without a link posts at once; resolves when posted. */
  async #sendChunk(serving: Serving, part: GatheredChunk): Promise<void> {
    const { connection, read, signal } = serving;
    const { chunk, index, gathered, startMs, endMs, slot } = part;
    const { transferId } = read;
    const bytes = chunk.byteLength;
    const { sum, slabInStart, slabInEnd } = this.#copyIn(serving, part);
    const readbackStart = Math.max(startMs, endMs - gathered.readbackMs);
    const submitted = Math.max(startMs, readbackStart - gathered.waitMs);
    const times = {
      waitStart: index === 0 && read.kind === 'read' ? Math.min(read.postedAt, startMs) : startMs,
      gatherStart: Math.max(startMs, submitted - gathered.gatherMs),
      ...{ submitted, readbackStart, mapped: endMs, slabInStart, slabInEnd },
    };
    const post = (linkTimes: HolderTimes['link']) =>
      this.#deps.post({
        kind: 'chunk',
        ...{ epoch: connection.epoch, transferId, index, slot, byteLength: bytes },
        ...{ group: chunk.group, first: chunk.first, count: chunk.blockIds.length },
        ...(read.kind === 'stream' ? { blockIds: chunk.blockIds } : {}),
        times: { ...times, link: linkTimes },
        ...{ checksum: sum, descriptors: gathered.descriptors },
      });
    const link = this.#linkOf(connection);
    if (!link) return post(null);
    const delivery = await link.deliver(bytes, signal);
    if (!delivery) return connection.ring.release(slot);
    post({ start: delivery.startMs, arrival: delivery.arrivalMs });
  }

  #linkOf(connection: Connection): LinkQueue | null {
    const spec = this.#deps.link();
    if (spec !== connection.linkSpec) {
      connection.linkSpec = spec;
      connection.link = spec && new LinkQueue(spec, this.#deps.clock);
    }
    return connection.link;
  }

  #copyIn({ connection, read }: Serving, { chunk, index, gathered, slot }: GatheredChunk) {
    const { clock, beforeChunkPosted } = this.#deps;
    try {
      const source = gathered.bytes.subarray(0, chunk.byteLength);
      invariant(
        source.length === chunk.byteLength,
        () => `gathered ${source.length} of ${chunk.byteLength} bytes`,
      );
      const sum = this.#deps.checksum ? checksum(source) : null;
      const slabInStart = clock.now();
      const target = slotView(connection.slab, connection.slotBytes, slot, chunk.byteLength);
      target.set(source);
      const slabInEnd = clock.now();
      beforeChunkPosted?.(target, { transferId: read.transferId, index });
      return { sum, slabInStart, slabInEnd };
    } catch (error) {
      connection.ring.release(slot);
      throw error;
    } finally {
      gathered.release();
    }
  }

  #end(read: { epoch: number; transferId: string }, outcome: TransferOutcome, message: string): void {
    const { epoch, transferId } = read;
    this.#deps.post({ kind: 'read_ended', epoch, transferId, outcome, message });
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Keeps a promise that is awaited later, or never, from counting as unhandled meanwhile. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
