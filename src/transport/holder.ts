/**
 * The holder's half towards one reader: answers its handshake with a slab, and serves its READs, whose chunks
 * send-chunks.ts moves. Which READs may be served is the gate's business; serving never waits for own reads.
 */
import type { TransferOutcome } from '../engine/kv-connector.ts';
import { messageOf } from '../errors.ts';
import { cutIntoChunks } from './chunks.ts';
import type { HandshakeSide } from './compatibility.ts';
import { ALIVE_SIGNS } from './deadlines.ts';
import { impossibleRead } from './impossible-read.ts';
import { LinkInForce, type LinkSpec } from './link.ts';
import type { HelloMessage, ReadEndedMessage, ReadMessage, StreamMessage, ToHolder } from './messages.ts';
import { ChunkSending, CreditLostError, type SendingDeps, type SlabOut } from './send-chunks.ts';
import { sendStream } from './send-stream.ts';
import { createSlab, SlotRing, slotBytesFor } from './slab.ts';
import type { ReadGate, StreamEnd, StreamGate } from './types.ts';

export interface HolderDeps extends Omit<SendingDeps, 'link'> {
  own: HandshakeSide;
  /** The engine that reads. */
  readerId: string;
  gate: () => ReadGate;
  streamGate: () => StreamGate;
  /** The link in force; a change takes hold with the next chunk. */
  link: () => LinkSpec | null;
  maxChunkBytes: number;
  slots: number;
}

interface Connection extends SlabOut {
  maxChunkBytes: number;
  link: LinkInForce;
  transfers: Map<string, AbortController>;
}

interface OpenedRead {
  /** null: all was sent. */
  send: (sending: ChunkSending) => Promise<StreamEnd | null>;
  finished: () => void;
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
    if (message.kind === 'credit') connection.ring.taken(message.slot, message);
    else if (message.kind === 'cancel') connection.transfers.get(message.transferId)?.abort();
    else void this.#serve(connection, message);
  }

  /** Stops serving and drops the slab; blocks stay pinned until the device has finished with them. */
  close(): void {
    const connection = this.#connection;
    this.#connection = null;
    for (const transfer of connection?.transfers.values() ?? []) transfer.abort();
  }

  /** Ends the connection and tells the reader, whose READs are then asked for anew. */
  disconnect(why: string): void {
    const epoch = this.#connection?.epoch;
    this.close();
    if (epoch !== undefined) this.#end({ epoch, transferId: '' }, 'dead', why);
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
    // It comes for the second time, or late: the reader uses the slab of this one, or of a later one.
    if (this.#connection && hello.epoch <= this.#connection.epoch) return;
    this.close();
    const { own, slots, memory, clock, link } = this.#deps;
    const maxChunkBytes = Math.min(this.#deps.maxChunkBytes, hello.maxChunkBytes);
    const slotBytes = slotBytesFor(maxChunkBytes, memory.blockBytes);
    const slab = createSlab({ slots, slotBytes });
    this.#connection = {
      epoch: hello.epoch,
      slab,
      slotBytes,
      maxChunkBytes,
      ring: new SlotRing(slots),
      link: new LinkInForce(link, clock),
      transfers: new Map(),
    };
    const { identity, factors } = own;
    const { epoch } = hello;
    this.#deps.post({ kind: 'welcome', epoch, identity, factors, slab, slots, slotBytes, now: clock.now() });
  }

  async #serve(connection: Connection, read: ReadMessage | StreamMessage): Promise<void> {
    // It comes for the second time.
    if (connection.transfers.has(read.transferId)) return;
    let opened: OpenedRead | StreamEnd;
    try {
      opened = this.#open(read, connection);
    } catch (error) {
      return this.#end(read, 'failed', `the holder could not decide on the READ: ${messageOf(error)}`);
    }
    if ('outcome' in opened) return this.#end(read, opened.outcome, opened.message);
    // Only who may read is told what else is wrong.
    const wrong = impossibleRead(read, this.#deps.memory.numBlocks);
    if (wrong) {
      opened.finished();
      return this.#end(read, 'failed', wrong);
    }

    const transfer = new AbortController();
    connection.transfers.set(read.transferId, transfer);
    const { signal } = transfer;
    const sending = new ChunkSending({ ...this.#deps, link: connection.link }, connection, read, signal);
    let end: Pick<ReadEndedMessage, 'outcome' | 'message'> = { outcome: 'done', message: '' };
    const over = new AbortController();
    // Of one that was given up nobody wants to hear, however long a gather of it still takes.
    signal.addEventListener('abort', () => over.abort(), { once: true });
    void this.#sayAlive(read, over.signal);
    try {
      end = (await opened.send(sending)) ?? end;
      await sending.posted;
    } catch (error) {
      const lost = error instanceof CreditLostError;
      end = lost
        ? {
            outcome: 'dead',
            message: 'the holder heard of no free slot for too long and ends the connection.',
          }
        : { outcome: 'failed', message: `the holder could not give its blocks: ${messageOf(error)}` };
    }
    over.abort();
    connection.transfers.delete(read.transferId);
    opened.finished();
    if (!signal.aborted) this.#end(read, end.outcome, end.message);
    if (end.outcome === 'dead' && this.#connection === connection) this.close();
  }

  async #sayAlive({ epoch, transferId }: ReadMessage | StreamMessage, over: AbortSignal): Promise<void> {
    const { clock, silenceMs } = this.#deps;
    for (;;) {
      await clock.sleep(silenceMs / ALIVE_SIGNS, over);
      if (over.aborted) return;
      this.#deps.post({ kind: 'alive', epoch, transferId });
    }
  }

  /** Asks the gate; how to send the blocks, or why they are refused. */
  #open(read: ReadMessage | StreamMessage, { maxChunkBytes }: Connection): OpenedRead | StreamEnd {
    const { gate, streamGate, memory, readerId } = this.#deps;
    const cut = (blockIds: ReadMessage['blockIds']) =>
      cutIntoChunks(blockIds, memory.blockBytes, maxChunkBytes);
    if (read.kind === 'stream') {
      const stream = streamGate()(read.remoteRequestId, read.claim, readerId);
      const send = (sending: ChunkSending) =>
        sendStream({
          blockIndexes: read.blockIndexes,
          stream,
          signal: sending.signal,
          cut,
          send: (batch) => sending.send(batch),
        });
      return { finished: () => stream.finished(), send };
    }
    const decision = gate()(read.remoteRequestId, read.blockIds, read.claim, readerId);
    if (!decision.allow) return decision;
    const send = async (sending: ChunkSending) => {
      await sending.send({ chunks: cut(read.blockIds) });
      return null;
    };
    return { finished: decision.finished, send };
  }

  #end(read: { epoch: number; transferId: string }, outcome: TransferOutcome, message: string): void {
    const { epoch, transferId } = read;
    this.#deps.post({ kind: 'read_ended', epoch, transferId, outcome, message });
  }
}
