/**
 * Bytes between engines. The transport moves block contents through shared memory and messages (never block bytes in a
 * message); it knows neither the GPU, which stands behind BlockMemory, nor what a block is for.
 */
import type { TransferOutcome } from '../engine/kv-connector.ts';
import type { BlockId, BlockIds } from '../engine/types.ts';
import type { PrefixClaim } from './prefix-claim.ts';
import type { StoreMessage } from './store-messages.ts';

/** Under which peers find an engine. */
export interface RemoteAddress {
  engineId: string;
  host: string;
  port: number;
}

/** One block to fetch. */
export interface BlockPair {
  group: number;
  remote: BlockId;
  local: BlockId;
}

/** A hold at another engine, and what shows that one has business with it. */
export interface HoldRef {
  requestId: string;
  /** All of its tokens, as its parameters tell them. */
  held: PrefixClaim;
}

/** What a READ shows its holder, who compares it with what it has. */
export interface ReadClaim {
  held: PrefixClaim;
  /** Of the reader's own prompt, as far as its blocks are to be read. */
  prompt: PrefixClaim;
}

/** The paged KV of one engine, as bytes: a block is layer by layer here, however it lies on the device. */
export interface BlockMemory {
  /** Bytes of one block, by group. */
  readonly blockBytes: readonly number[];
  /** Blocks in the pool, by group, the null block included. */
  readonly numBlocks: readonly number[];
  /**
   * Copies the blocks, in order, from the device into mapped memory. Takes a place in a ring of staging buffers and
   * waits for one when all are in use; release() gives it back. At most maxStagingBytes at once. When `revoked` aborts
   * before the copies are submitted to the device they never are, and the gather rejects.
   */
  gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks>;
  /** A mapped buffer to fill with byteLength bytes; waits for a free one in the ring. */
  stage(byteLength: number): Promise<StagedBlocks>;
  readonly maxStagingBytes: number;
}

export interface GatheredBlocks {
  bytes: Uint8Array;
  release(): void;
  /**
   * Milliseconds: copy commands encoded and submitted; then the copy waited behind other work of the device; then the
   * device copied, and the buffer was mapped. What came before was waiting for a place in the ring.
   */
  gatherMs: number;
  waitMs: number;
  readbackMs: number;
  /** Copies that the device made: runs of neighbouring blocks, or layers' pieces of blocks. */
  descriptors: number;
}

export interface StagedBlocks {
  bytes: Uint8Array;
  /**
   * Copies the bytes, in order, into these blocks on the device. Resolves when the device has done it, with the
   * milliseconds that passed since the copy was submitted.
   */
  commit(group: number, blockIds: readonly BlockId[]): Promise<{ scatterMs: number }>;
  /** Gives the buffer back unused. */
  discard(): void;
}

/** What both ends must agree on. The hash's factors follow vLLM's NIXL connector. */
export interface EngineIdentity extends RemoteAddress {
  compatibilityHash: string;
  blockSize: number;
  blockBytes: readonly number[];
}

export interface ReadRequest {
  remote: RemoteAddress;
  /** The holder's request whose blocks are read. */
  remoteRequestId: string;
  claim: ReadClaim;
  pairs: readonly BlockPair[];
  /** Own request, for spans and messages. */
  requestId: string;
  /** The pairs' `remote` are indexes of blocks in the holder's sequence, which may still be computed; ascending by group. */
  streamed?: boolean;
  /** Of a streamed READ: told the holder's ids of what a chunk brings, before its bytes are taken. */
  onChunk?: (pairs: readonly BlockPair[]) => void;
  /** Ends the READ as 'failed'. */
  signal?: AbortSignal;
}

/** Milliseconds of each stage, summed over chunks, on the host's clock; stages overlap, so they may exceed wallMs. */
export interface TransferStages {
  handshakeMs: number;
  /** From the READ's posting until the holder's device began to copy the first chunk. */
  waitMs: number;
  gatherMs: number;
  readbackMs: number;
  slabInMs: number;
  /** Modelled time of a throttled link; 0 when the link is off. */
  linkMs: number;
  slabOutMs: number;
  uploadMs: number;
  scatterMs: number;
  notifyMs: number;
}

export interface TransferResult {
  outcome: TransferOutcome;
  message: string;
  /** Counted where they are copied out of the slab. */
  bytes: number;
  blocks: number;
  chunks: number;
  /** Copies on the holder's device: runs of neighbouring blocks, or layers' pieces of blocks. */
  descriptors: number;
  wallMs: number;
  /**
   * Of a streamed READ, null otherwise: the part of wallMs in which bytes of it were under way, from a chunk's gather to its
   * scatter; in the rest it waited for blocks to be computed, or for the device.
   */
  movingMs: number | null;
  /** What it took to post the READ, milliseconds: vLLM's post time. */
  postMs: number;
  stages: TransferStages;
}

/** A message from a reader to a holder, outside of any transfer. */
export type HoldNotification =
  | ({ kind: 'done_reading' } & HoldRef)
  | { kind: 'heartbeat'; holds: readonly HoldRef[] };

/** Any message outside of a transfer. */
export type PeerNotification = HoldNotification | StoreMessage;

/** Decides at the holder whether a READ may be served. */
export type ReadGate = (
  requestId: string,
  blockIds: BlockIds,
  claim: ReadClaim,
  /** The reader's engine. */
  readerId: string,
) => { allow: true; finished: () => void } | ({ allow: false } & StreamEnd);

/** Blocks of a sequence, by group, from its first to number numBlocks - 1, that have KV. */
export interface ReadyBlocks {
  blockIds: BlockIds;
  numBlocks: number;
  /** Aborts when they are given back: copies that were not submitted to the device by then must not be. */
  revoked: AbortSignal;
}

/** Why further blocks will not come. */
export interface StreamEnd {
  outcome: Exclude<TransferOutcome, 'done' | 'dead'>;
  message: string;
}

/** A sequence as one reader of it sees it, which may be while it is computed. */
export interface BlockStream {
  /** Resolves when block `index` is there, or never will be; null when the signal aborts first. */
  ready(index: number, signal: AbortSignal): Promise<ReadyBlocks | StreamEnd | null>;
  /** Nobody reads it any more. Call once the device has done what was submitted. */
  finished(): void;
}

/** Opens the sequence of a request, known or not, at the holder. */
export type StreamGate = (requestId: string, claim: ReadClaim, readerId: string) => BlockStream;

export interface Transport {
  readonly identity: EngineIdentity;
  /**
   * Connects, shakes hands where needed, and reads. Never rejects: the result says how it ended, and comes only when
   * nothing of this READ can still write into the local blocks.
   */
  read(request: ReadRequest): Promise<TransferResult>;
  /** Fire and forget; shakes hands first where needed. Never throws. */
  notify(remote: RemoteAddress, notification: PeerNotification, requestId?: string): void;
  /**
   * Seconds to subtract from the holder's clock to get ours (0 on one machine with a shared clock).
   * Rejects with EngineDeadError or TransferError when no handshake is possible.
   */
  clockOffsetSeconds(remote: RemoteAddress): Promise<number>;
}

/** What the holder's side of an engine decides and hears. Set once the engine's connector exists. */
export interface TransportHandlers {
  gate: ReadGate;
  streamGate: StreamGate;
  onNotification: (fromEngineId: string, notification: PeerNotification) => void;
  /** A notification that could not be posted: it costs the holder its lease or TTL, nothing else. */
  onNotifyFailed: (remote: RemoteAddress, notification: PeerNotification, message: string) => void;
  /** It reads nothing any more, and says nothing: it ended, or another took its place. */
  onPeerGone: (engineId: string) => void;
}

/** A transport that also answers its peers. */
export interface ServingTransport extends Transport {
  /** Until a gate is set, READs are refused as 'failed'. `peer`: only for what this engine, or store, asks and says. */
  setHandlers(handlers: Partial<TransportHandlers>, peer?: string): void;
}
