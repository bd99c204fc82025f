/**
 * The holder's half of a connection to one reader: answers the handshake with a slab, and serves READs. The gate decides which
 * READs are allowed; send-chunks.ts moves the chunks. Serving never waits for this engine's own READs.
 */
import type { TransferOutcome } from '../engine/kv-connector.ts';
import { messageOf } from '../errors.ts';
import { cutIntoChunks } from './chunks.ts';
import type { HandshakeSide } from './compatibility.ts';
import { ALIVE_SIGNS } from './deadlines.ts';
import { impossibleRead } from './impossible-read.ts';
import { ActiveLink, type LinkSpec } from './link.ts';
import type { HelloMessage, ReadEndedMessage, ReadMessage, StreamMessage, ToHolder } from './messages.ts';
import { ChunkSending, CreditLostError, type SendingDeps, type SlabOut } from './send-chunks.ts';
import { sendStream } from './send-stream.ts';
import { createSlab, SlotRing, slotBytesFor } from './slab.ts';
import type { ReadGate, StreamEnd, StreamGate } from './types.ts';

export interface HolderDeps extends Omit<SendingDeps, 'link'> {
  own: HandshakeSide;
  /** The reading engine. */
  readerId: string;
  gate: () => ReadGate;
  streamGate: () => StreamGate;
  /** The current link model. A change applies from the next chunk on. */
  link: () => LinkSpec | null;
  maxChunkBytes: number;
  slots: number;
}

/** Number of READs of a connection that are remembered. A duplicate comes soon after its original. */
const MOST_KNOWN_READS = 256;

interface Connection extends SlabOut {
  maxChunkBytes: number;
  link: ActiveLink;
  transfers: Map<string, AbortController>;
  /** The last READs, ended ones included: a duplicate must not be served again. */
  known: Set<string>;
}

interface OpenedRead {
  /** Resolves to null if everything was sent. */
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

  /** Stops serving and drops the slab. Blocks stay pinned until the device has finished with them. */
  close(): void {
    const connection = this.#connection;
    this.#connection = null;
    for (const transfer of connection?.transfers.values() ?? []) transfer.abort();
  }

  /** Ends the connection and tells the reader, which then repeats its READs. */
  disconnect(why: string): void {
    const epoch = this.#connection?.epoch;
    this.close();
    if (epoch !== undefined) this.#end({ epoch, transferId: '' }, 'dead', why);
  }

  /** Zeros before the handshake; slotBytes is in bytes. */
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
    // A duplicate or late hello: the reader uses the slab of this epoch or of a later one.
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
      link: new ActiveLink(link, clock),
      transfers: new Map(),
      known: new Set(),
    };
    const { identity, factors } = own;
    const { epoch } = hello;
    this.#deps.post({ kind: 'welcome', epoch, identity, factors, slab, slots, slotBytes, now: clock.now() });
  }

  async #serve(connection: Connection, read: ReadMessage | StreamMessage): Promise<void> {
    const { known } = connection;
    if (known.has(read.transferId)) return;
    known.add(read.transferId);
    if (known.size > MOST_KNOWN_READS) {
      const [oldest] = known;
      known.delete(oldest!);
    }
    let opened: OpenedRead | StreamEnd;
    try {
      opened = this.#open(read, connection);
    } catch (error) {
      return this.#end(read, 'failed', `the holder could not decide on the READ: ${messageOf(error)}`);
    }
    if ('outcome' in opened) return this.#end(read, opened.outcome, opened.message);
    // Checked after the gate: only an authorised reader is told what else is wrong.
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
    const done = new AbortController();
    // Send no signs of life for an aborted READ, however long its last gather takes.
    signal.addEventListener('abort', () => done.abort(), { once: true });
    void this.#sendAlive(read, done.signal);
    try {
      end = (await opened.send(sending)) ?? end;
      await sending.posted;
    } catch (error) {
      const lost = error instanceof CreditLostError;
      end = lost
        ? {
            outcome: 'dead',
            message: 'the holder got no slot back for too long, and ended the connection.',
          }
        : { outcome: 'failed', message: `the holder could not send its blocks: ${messageOf(error)}` };
    }
    done.abort();
    connection.transfers.delete(read.transferId);
    opened.finished();
    if (!signal.aborted) this.#end(read, end.outcome, end.message);
    if (end.outcome === 'dead' && this.#connection === connection) this.close();
  }

  async #sendAlive({ epoch, transferId }: ReadMessage | StreamMessage, done: AbortSignal): Promise<void> {
    const { clock, silenceMs } = this.#deps;
    for (;;) {
      await clock.sleep(silenceMs / ALIVE_SIGNS, done);
      if (done.aborted) return;
      this.#deps.post({ kind: 'alive', epoch, transferId });
    }
  }

  /** Asks the gate. Returns how to send the blocks, or why the READ is refused. */
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
