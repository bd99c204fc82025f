/**
 * The interface of the transport, which moves block contents between engines through shared memory, controlled by messages
 * (which never contain block bytes). It does not know the GPU, which is behind BlockMemory, or what a block is for.
 */
import type { TransferOutcome } from '../engine/kv-connector.ts';
import type { BlockId, BlockIds } from '../engine/types.ts';
import type { PrefixClaim } from './prefix-claim.ts';
import type { StoreMessage } from './store-messages.ts';

/** Where peers find an engine. */
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

/** A hold at another engine, with the claim that authorises the sender. */
export interface HoldRef {
  requestId: string;
  /** Claim over all its tokens, as given in its parameters. */
  held: PrefixClaim;
}

/** The claims of a READ. The holder compares them with its own. */
export interface ReadClaim {
  held: PrefixClaim;
  /** Claim over the reader's own prompt, as far as blocks are to be read. */
  prompt: PrefixClaim;
}

/** The paged KV of one engine, as bytes. Here, a block is laid out layer by layer, regardless of its layout on the device. */
export interface BlockMemory {
  /** Bytes of one block, by group. */
  readonly blockBytes: readonly number[];
  /** Blocks in the pool, by group, including the null block. */
  readonly numBlocks: readonly number[];
  /**
   * Copies the blocks, in order, from the device into mapped memory; at most maxStagingBytes per call. Uses a staging buffer
   * from a ring, waiting for one if all are in use, until release(). If `revoked` aborts before the copies are submitted to
   * the device, they are not submitted, and the gather rejects.
   */
  gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks>;
  /** A mapped buffer for byteLength bytes, to be filled. Waits for a free one in the ring. */
  stage(byteLength: number): Promise<StagedBlocks>;
  readonly maxStagingBytes: number;
}

export interface GatheredBlocks {
  bytes: Uint8Array;
  release(): void;
  /**
   * Consecutive times, ms: encoding and submitting the copies; waiting for other work of the device; copying and mapping the
   * buffer. Any time before that was spent waiting for a staging buffer.
   */
  gatherMs: number;
  waitMs: number;
  readbackMs: number;
  /** Copy commands on the device: one per run of neighbouring blocks, or per piece if the layout splits blocks by layer. */
  descriptors: number;
}

export interface StagedBlocks {
  bytes: Uint8Array;
  /**
   * Copies the bytes, in order, into these blocks on the device. Resolves when the device is done, with the time since the
   * copy was submitted, ms.
   */
  commit(group: number, blockIds: readonly BlockId[]): Promise<{ scatterMs: number }>;
  /** Returns the buffer unused. */
  discard(): void;
}

/** What both ends must agree on (compatibility.ts). blockSize is in tokens, blockBytes in bytes by group. */
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
  /** The local request, for spans and messages. */
  requestId: string;
  /** The blocks may not be computed yet: `remote` values are block indexes in the holder's sequence, ascending by group. */
  streamed?: boolean;
  /** For a streamed READ: called with a chunk's pairs, with the holder's block ids, before its bytes are copied. */
  onChunk?: (pairs: readonly BlockPair[]) => void;
  /** Aborting it ends the READ as 'failed'. */
  signal?: AbortSignal;
}

/** Time of each stage, ms, summed over chunks, on the host's clock. Stages overlap, so the sum may exceed wallMs. */
export interface TransferStages {
  handshakeMs: number;
  /** From posting the READ until the holder's device began to copy the first chunk. */
  waitMs: number;
  gatherMs: number;
  readbackMs: number;
  slabInMs: number;
  /** Time on the modelled link; 0 if none is modelled. */
  linkMs: number;
  slabOutMs: number;
  uploadMs: number;
  scatterMs: number;
  notifyMs: number;
}

export interface TransferResult {
  outcome: TransferOutcome;
  message: string;
  /** Bytes copied out of the slab. */
  bytes: number;
  blocks: number;
  chunks: number;
  /** Copy commands on the holder's device. See GatheredBlocks. */
  descriptors: number;
  wallMs: number;
  /**
   * For a streamed READ (else null): the part of wallMs in which its bytes were moving, from a chunk's gather to its scatter. The
   * rest was spent waiting for blocks to be computed, or for the device.
   */
  movingMs: number | null;
  /** Time to post the READ, ms: vLLM's post time. */
  postMs: number;
  /** For a load from a store: tokens whose KV it was for. The connector sets it; the transport knows only blocks. */
  tokens?: number;
  stages: TransferStages;
}

/** A notification from a reader to a holder, independent of any transfer. */
export type HoldNotification =
  | ({ kind: 'done_reading' } & HoldRef)
  | { kind: 'heartbeat'; holds: readonly HoldRef[] };

/** Any notification between engines, or between an engine and a store. */
export type PeerNotification = HoldNotification | StoreMessage;

/** Decides at the holder whether a READ may be served. If so, finished() must be called when the device has done its copies. */
export type ReadGate = (
  requestId: string,
  blockIds: BlockIds,
  claim: ReadClaim,
  /** The reading engine. */
  readerId: string,
) => { allow: true; finished: () => void } | ({ allow: false } & StreamEnd);

/** The first numBlocks blocks of a sequence, by group; all have KV. */
export interface ReadyBlocks {
  blockIds: BlockIds;
  numBlocks: number;
  /** Aborted when they are freed: copies not yet submitted to the device must not be submitted. */
  revoked: AbortSignal;
}

/** Why there will be no further blocks. */
export interface StreamEnd {
  outcome: Exclude<TransferOutcome, 'done' | 'dead'>;
  message: string;
}

/** A sequence as seen by one reader, possibly while it is being computed. */
export interface BlockStream {
  /** Resolves when block `index` is available, or never will be; to null if the signal aborts first. */
  ready(index: number, signal: AbortSignal): Promise<ReadyBlocks | StreamEnd | null>;
  /** Ends the reading. Call once, when the device has finished all submitted copies. */
  finished(): void;
}

/** Opens the sequence of a request at the holder, even if the request has not arrived yet. */
export type StreamGate = (requestId: string, claim: ReadClaim, readerId: string) => BlockStream;

export interface Transport {
  readonly identity: EngineIdentity;
  /**
   * Connects, with a handshake if needed, and reads. Never rejects: the result says how the READ ended, and comes only when
   * nothing of it can still write into local blocks.
   */
  read(request: ReadRequest): Promise<TransferResult>;
  /** Fire and forget, after a handshake if needed. Never throws. */
  notify(remote: RemoteAddress, notification: PeerNotification, requestId?: string): void;
  /**
   * Holder's clock minus own clock, seconds (about 0 on one machine with a shared clock).
   * Rejects with EngineDeadError or TransferError if the handshake fails.
   */
  clockOffsetSeconds(remote: RemoteAddress): Promise<number>;
}

/** Callbacks of the holder's side. Set once the engine's connector exists. */
export interface TransportHandlers {
  gate: ReadGate;
  streamGate: StreamGate;
  onNotification: (fromEngineId: string, notification: PeerNotification) => void;
  /** A notification could not be posted. If it was about a hold, the hold stays until its lease or TTL ends. */
  onNotifyFailed: (remote: RemoteAddress, notification: PeerNotification, message: string) => void;
  /** The peer ended, or another took its place: it will not read or send anything any more. */
  onPeerGone: (engineId: string) => void;
}

/** A transport that also answers its peers. */
export interface ServingTransport extends Transport {
  /** Until a gate is set, READs are refused as 'failed'. `peer`: applies only to this engine or store. */
  setHandlers(handlers: Partial<TransportHandlers>, peer?: string): void;
}
