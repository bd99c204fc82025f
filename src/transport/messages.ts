/**
 * All messages about blocks between two engines. Messages contain no block bytes: a chunk's message names the slab slot that
 * has them. Each ordered pair (holder -> reader) has its own slab and epoch. The reader picks the epoch, and the receiver
 * ignores messages of any other epoch.
 */
import type { TransferOutcome } from '../engine/kv-connector.ts';
import type { BlockId } from '../engine/types.ts';
import type { CompatibilityFactors } from './compatibility.ts';
import type { EngineIdentity, PeerNotification, ReadClaim } from './types.ts';

/** Reader to holder, once per connection: asks for a slab. */
export interface HelloMessage {
  kind: 'hello';
  epoch: number;
  identity: EngineIdentity;
  factors: CompatibilityFactors | null;
  /** The most bytes that the reader stages at once, unless one block is larger. */
  maxChunkBytes: number;
}

/** Holder to reader. The slab belongs to the holder and was created for this connection. */
export interface WelcomeMessage {
  kind: 'welcome';
  epoch: number;
  identity: EngineIdentity;
  factors: CompatibilityFactors | null;
  slab: SharedArrayBuffer;
  slots: number;
  slotBytes: number;
  /** Ms on the holder's clock. */
  now: number;
}

/** Reader to holder. */
export interface ReadMessage {
  kind: 'read';
  epoch: number;
  transferId: string;
  /** The holder's request whose blocks are wanted. */
  remoteRequestId: string;
  claim: ReadClaim;
  /** The reader's request, for spans. */
  requestId: string;
  /** By group, in the order in which the bytes are to be sent. */
  blockIds: readonly (readonly BlockId[])[];
  /** Ms on the reader's clock. */
  postedAt: number;
}

/** Reader to holder: a streamed READ. The blocks may not be computed yet, and are sent as they become available. */
export interface StreamMessage extends Omit<ReadMessage, 'kind' | 'blockIds'> {
  kind: 'stream';
  /** By group, ascending: block indexes in the sequence of the holder's request. */
  blockIndexes: readonly (readonly number[])[];
}

/**
 * Times of a chunk at the holder, ms on its clock. Only a modelled link delays a chunk between slabInEnd and the posting of its
 * message.
 */
export interface HolderTimes {
  /** The first chunk waits from when the reader posted the READ; a streamed chunk from when its blocks were computed. */
  waitStart: number;
  gatherStart: number;
  submitted: number;
  readbackStart: number;
  mapped: number;
  slabInStart: number;
  slabInEnd: number;
  /** null if no link is modelled. */
  link: { start: number; arrival: number } | null;
}

/** Holder to reader: the slot contains blocks [first, first + count) of the group's list. */
export interface ChunkMessage {
  kind: 'chunk';
  epoch: number;
  transferId: string;
  /** 0, 1, ... within the transfer. */
  index: number;
  slot: number;
  byteLength: number;
  group: number;
  first: number;
  count: number;
  /** For a streamed READ: the holder's block ids, which the READ did not name. */
  blockIds?: readonly BlockId[];
  times: HolderTimes;
  /** Checksum of the bytes before they were copied into the slab; null if checksums are off. */
  checksum: number | null;
  /** Number of copy commands on the holder's device. */
  descriptors: number;
}

/** Reader to holder: the slot is free again. Sent for every chunk, even one that is no longer wanted. */
export interface CreditMessage {
  kind: 'credit';
  epoch: number;
  slot: number;
  transferId: string;
  /** The chunk's index. */
  index: number;
}

/** Reader to holder: the rest is no longer wanted. */
export interface CancelMessage {
  kind: 'cancel';
  epoch: number;
  transferId: string;
}

/** Holder to reader, repeatedly: the READ is still being served. */
export interface AliveMessage {
  kind: 'alive';
  epoch: number;
  transferId: string;
}

/** Holder to reader: the last message of its transfer. With 'done', all chunks have been posted before it. */
export interface ReadEndedMessage {
  kind: 'read_ended';
  epoch: number;
  transferId: string;
  outcome: TransferOutcome;
  message: string;
}

/** In either direction, independent of any transfer. */
export interface NotificationMessage {
  kind: 'notification';
  notification: PeerNotification;
  /** The sender's request, for spans; null for heartbeats. */
  requestId: string | null;
  /** Ms on the sender's clock. */
  postedAt: number;
}

export type ToHolder = HelloMessage | ReadMessage | StreamMessage | CreditMessage | CancelMessage;
export type ToReader = WelcomeMessage | ChunkMessage | AliveMessage | ReadEndedMessage;
export type PeerMessage = ToHolder | ToReader | NotificationMessage;
