/**
 * One engine's transport: all its peers, found by (host, port). It reads from and serves any of them, in both directions at the
 * same time. It does not track requests: the gate decides what may be read, and the connector what to read.
 */
import type { Clock } from '../engine/types.ts';
import { ConfigError, EngineDeadError, TransferError } from '../errors.ts';
import type { SpanSink } from '../measure/spans/spans.ts';
import { sumOf } from '../sum.ts';
import { DEFAULT_CHUNK_BYTES } from './chunks.ts';
import type { CompatibilityFactors } from './compatibility.ts';
import { SILENCE_MS } from './deadlines.ts';
import { HolderHalf } from './holder.ts';
import type { LinkSpec } from './link.ts';
import type { NotificationMessage } from './messages.ts';
import { Peer } from './peer.ts';
import { ReaderHalf } from './reader.ts';
import { slotBytesFor } from './slab.ts';
import { emitStage } from './stage-spans.ts';
import { emptyResult } from './transfer.ts';
import type {
  BlockMemory,
  BlockPair,
  EngineIdentity,
  PeerNotification,
  ReadRequest,
  RemoteAddress,
  ServingTransport,
  TransferResult,
  TransportHandlers,
} from './types.ts';

export interface TransportDeps {
  identity: EngineIdentity;
  /** The factors behind identity.compatibilityHash, so that a failed handshake can name the differences. */
  factors?: CompatibilityFactors | null;
  memory: BlockMemory;
  clock: Clock;
  /** Time after which a silent peer is asked again, ms. Default: 20 s. */
  silenceMs?: number;
  onSpan?: SpanSink;
  /** Link model towards all peers. null or absent: none. */
  link?: LinkSpec | null;
  /** Largest chunk, bytes, unless one block is larger. Default: 2 MiB. */
  chunkBytes?: number;
  /** Slots (chunks) in the slab of each direction of a pair. Default: 4. */
  slots?: number;
  /** Compare a checksum of each chunk at both ends. Default: false. */
  checksum?: boolean;
  /** Refuse peers with another compatibility hash. Default: true. */
  enforceHandshakeCompat?: boolean;
  /** For negative controls: called with each chunk in the slab before it is posted, and may damage it. */
  beforeChunkPosted?: (bytes: Uint8Array, chunk: { transferId: string; index: number }) => void;
}

export interface PeerTransport extends ServingTransport {
  /**
   * Takes ownership of the port. An earlier peer at this (host, port) is ended first; the new one needs a new handshake.
   * `ownLink`: link model towards this peer, in place of the common one.
   */
  addPeer(port: MessagePort, address: RemoteAddress, ownLink?: LinkSpec | null): void;
  /** Ends every transfer with this engine as 'dead' immediately. Later reads from it are 'dead' too. */
  peerDied(engineId: string, reason?: string): void;
  /** Applies from the next chunk on. Peers with their own link are not affected. */
  setLink(link: LinkSpec | null): void;
  /** Ends everything; later reads are 'dead'. Idempotent. */
  close(): void;
  /** The slabs of all readers together (slotBytes: the largest). Zeros before the first handshake. */
  slab(): { slotsInUse: number; slots: number; slotBytes: number };
  /** Bytes of the slab that a reader with the same settings gets at its handshake. */
  readonly slabBytes: number;
  /** Bytes of the current slabs of all readers. */
  readonly sharedBytes: number;
  /** Slab slots in use, over all readers. */
  slotsInUse(): number;
}

export const DEFAULT_SLOTS = 4;

/** Throws ConfigError if a number is invalid or the memory cannot stage one block. */
export function createTransport(deps: TransportDeps): PeerTransport {
  const { chunkBytes = DEFAULT_CHUNK_BYTES, slots = DEFAULT_SLOTS, memory } = deps;
  for (const [name, value] of Object.entries({ chunkBytes, slots })) {
    if (!(Number.isInteger(value) && value > 0)) {
      throw new ConfigError(`transport: ${name} is ${value}; it must be a whole number of at least 1.`);
    }
  }
  const largestBlock = Math.max(...memory.blockBytes);
  if (memory.maxStagingBytes < largestBlock) {
    throw new ConfigError(
      `transport: one block has ${largestBlock} bytes, but the engine stages ${memory.maxStagingBytes} at most; use smaller blocks or larger staging buffers.`,
    );
  }
  return new MessagePortTransport(deps, Math.min(chunkBytes, memory.maxStagingBytes), slots);
}

class MessagePortTransport implements PeerTransport {
  readonly identity: EngineIdentity;
  readonly #deps: TransportDeps;
  readonly #maxChunkBytes: number;
  readonly #slots: number;
  readonly #handlers: TransportHandlers;
  /** Handlers for single peers, by engine id. */
  readonly #peerHandlers = new Map<string, TransportHandlers>();
  /** By 'host:port'. Dead peers are kept, so that later calls report them as dead. */
  readonly #peers = new Map<string, Peer>();
  #link: LinkSpec | null;
  #closed = false;
  #lastEpoch = 0;
  #lastTransfer = 0;

  constructor(deps: TransportDeps, maxChunkBytes: number, slots: number) {
    this.identity = deps.identity;
    this.#deps = deps;
    this.#link = deps.link ?? null;
    this.#maxChunkBytes = maxChunkBytes;
    this.#slots = slots;
    this.#handlers = {
      gate: () => ({ allow: false, outcome: 'failed', message: 'the holder is not ready to serve reads.' }),
      streamGate: () => ({
        ready: async () => ({ outcome: 'failed', message: 'the holder is not ready to stream blocks.' }),
        finished: () => {},
      }),
      onNotification: () => {},
      onNotifyFailed: () => {},
      onPeerGone: () => {},
    };
  }

  setHandlers(handlers: Partial<TransportHandlers>, peer?: string): void {
    if (peer === undefined) Object.assign(this.#handlers, handlers);
    else this.#peerHandlers.set(peer, { ...this.#handlersFor(peer), ...handlers });
  }

  setLink(link: LinkSpec | null): void {
    this.#link = link;
  }

  addPeer(port: MessagePort, address: RemoteAddress, ownLink: LinkSpec | null = null): void {
    if (this.#closed) {
      port.close();
      return;
    }
    this.#peers.get(keyOf(address))?.end(`engine '${address.engineId}' was connected again.`);
    const peer = new Peer({
      port,
      address,
      makeReader: (post) =>
        new ReaderHalf({
          ...this.#halves(),
          onSpan: this.#deps.onSpan ?? (() => {}),
          enforceHandshakeCompat: this.#deps.enforceHandshakeCompat ?? true,
          nextEpoch: () => ++this.#lastEpoch,
          nextTransferId: () => `${this.identity.engineId}-${++this.#lastTransfer}`,
          post,
        }),
      makeHolder: (post) =>
        new HolderHalf({
          ...this.#halves(),
          readerId: address.engineId,
          gate: () => this.#handlersFor(address.engineId).gate,
          streamGate: () => this.#handlersFor(address.engineId).streamGate,
          link: () => ownLink ?? this.#link,
          slots: this.#slots,
          checksum: this.#deps.checksum ?? false,
          beforeChunkPosted: this.#deps.beforeChunkPosted ?? null,
          post,
        }),
      onNotification: (message) => this.#onNotification(address, message),
      onEnd: () => this.#handlersFor(address.engineId).onPeerGone(address.engineId),
    });
    this.#peers.set(keyOf(address), peer);
  }

  peerDied(engineId: string, reason = 'its thread ended'): void {
    for (const peer of this.#peers.values()) {
      if (peer.address.engineId === engineId) peer.end(`engine '${engineId}' ended: ${reason}.`);
    }
  }

  close(): void {
    this.#closed = true;
    for (const peer of this.#peers.values())
      peer.end(`engine '${this.identity.engineId}' closed its transport.`);
  }

  get slabBytes(): number {
    return this.#slots * slotBytesFor(this.#maxChunkBytes, this.#deps.memory.blockBytes);
  }

  get sharedBytes(): number {
    return sumOf(this.#slabShapes(), ({ slots, slotBytes }) => slots * slotBytes);
  }

  slab(): { slotsInUse: number; slots: number; slotBytes: number } {
    const shapes = this.#slabShapes();
    return {
      slotsInUse: this.slotsInUse(),
      slots: sumOf(shapes, ({ slots }) => slots),
      slotBytes: Math.max(0, ...shapes.map(({ slotBytes }) => slotBytes)),
    };
  }

  slotsInUse(): number {
    return sumOf(this.#peers.values(), (peer) => peer.holder.slotsInUse);
  }

  async read(request: ReadRequest): Promise<TransferResult> {
    const wrong = this.#impossible(request.pairs);
    if (wrong) return emptyResult('failed', wrong, 0);
    if (request.pairs.length === 0) return emptyResult('done', '', 0);
    const found = this.#find(request.remote);
    if (!found.ok) return emptyResult(found.outcome, found.message, 0);
    return found.peer.reader.read(request);
  }

  notify(remote: RemoteAddress, notification: PeerNotification, requestId?: string): void {
    const postedAt = this.#deps.clock.now();
    const message: NotificationMessage = {
      kind: 'notification',
      notification,
      requestId: requestId ?? null,
      postedAt,
    };
    void this.#connect(remote).then((result) => {
      const found = result.ok ? result.connected.identity.engineId : remote.engineId;
      const { onNotifyFailed } = this.#handlersFor(remote.engineId);
      if (!result.ok) onNotifyFailed(remote, notification, result.message);
      else if (found === remote.engineId) result.peer.notify(message);
      else {
        const why = `expected engine '${remote.engineId}' at ${keyOf(remote)}, found '${found}'.`;
        onNotifyFailed(remote, notification, why);
      }
    });
  }

  async clockOffsetSeconds(remote: RemoteAddress): Promise<number> {
    const result = await this.#connect(remote);
    if (result.ok) return result.connected.clockOffsetMs / 1000;
    throw result.outcome === 'dead' ? new EngineDeadError(result.message) : new TransferError(result.message);
  }

  #handlersFor(peer: string): TransportHandlers {
    return this.#peerHandlers.get(peer) ?? this.#handlers;
  }

  #slabShapes() {
    return [...this.#peers.values()].map((peer) => peer.holder.slabShape);
  }

  #halves() {
    return {
      own: { identity: this.identity, factors: this.#deps.factors ?? null },
      memory: this.#deps.memory,
      clock: this.#deps.clock,
      silenceMs: this.#deps.silenceMs ?? SILENCE_MS,
      maxChunkBytes: this.#maxChunkBytes,
    };
  }

  async #connect(remote: RemoteAddress) {
    const found = this.#find(remote);
    if (!found.ok) return found;
    const result = await found.peer.reader.handshake.connect();
    return result.ok ? { ...result, peer: found.peer } : result;
  }

  #find(
    remote: RemoteAddress,
  ): { ok: true; peer: Peer } | { ok: false; outcome: 'failed' | 'dead'; message: string } {
    const no = (outcome: 'failed' | 'dead', message: string) => ({ ok: false as const, outcome, message });
    if (this.#closed) return no('dead', `engine '${this.identity.engineId}' closed its transport.`);
    const peer = this.#peers.get(keyOf(remote));
    if (!peer) {
      const known = [...this.#peers.keys()].join(', ') || 'none';
      return no('failed', `no engine is known at ${keyOf(remote)} (known: ${known}).`);
    }
    return peer.deadBecause === null ? { ok: true, peer } : no('dead', peer.deadBecause);
  }

  #impossible(pairs: readonly BlockPair[]): string | null {
    const { numBlocks } = this.#deps.memory;
    for (const { group, local } of pairs) {
      const blocks = numBlocks[group];
      if (blocks === undefined) return `a pair names KV cache group ${group}; there are ${numBlocks.length}.`;
      if (!(Number.isInteger(local) && local > 0 && local < blocks)) {
        return `a pair names local block ${local} of group ${group}; there are blocks 1 to ${blocks - 1}.`;
      }
    }
    return null;
  }

  #onNotification(from: RemoteAddress, message: NotificationMessage): void {
    const { notification, requestId, postedAt } = message;
    const { clock, onSpan } = this.#deps;
    if (notification.kind === 'done_reading' && onSpan) {
      const { engineId } = this.identity;
      const way = { from: from.engineId, to: engineId };
      const args = { transferId: notification.requestId, chunk: 0, bytes: 0 };
      emitStage(onSpan, 'notify', engineId, { way, requestId, args }, postedAt, clock.now());
    }
    this.#handlersFor(from.engineId).onNotification(from.engineId, notification);
  }
}

const keyOf = ({ host, port }: { host: string; port: number }): string => `${host}:${port}`;
