/**
 * Everything that two engines say to each other about blocks. Block bytes are never in a message: a chunk's message
 * names the slab slot where its bytes lie. Each ordered pair (holder -> reader) has a slab and an epoch of its own;
 * the reader picks the epoch, and messages of another one mean nothing to the receiver.
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
  /** The reader stages no more than this at once (or one block, if that is more). */
  maxChunkBytes: number;
}

/** Holder to reader. The slab is the holder's own, made for this connection. */
export interface WelcomeMessage {
  kind: 'welcome';
  epoch: number;
  identity: EngineIdentity;
  factors: CompatibilityFactors | null;
  slab: SharedArrayBuffer;
  slots: number;
  slotBytes: number;
  /** Holder's clock, milliseconds. */
  now: number;
}

/** Reader to holder. */
export interface ReadMessage {
  kind: 'read';
  epoch: number;
  transferId: string;
  /** The holder's request whose blocks are asked for. */
  remoteRequestId: string;
  claim: ReadClaim;
  /** The reader's request, for spans. */
  requestId: string;
  /** By group, in the order in which the bytes are wanted. */
  blockIds: readonly (readonly BlockId[])[];
  /** Reader's clock, milliseconds. */
  postedAt: number;
}

/** Reader to holder: a READ of blocks that may still be computed, each to be sent when it is there. */
export interface StreamMessage extends Omit<ReadMessage, 'kind' | 'blockIds'> {
  kind: 'stream';
  /** By group, ascending: places of the blocks in the sequence of the holder's request. */
  blockIndexes: readonly (readonly number[])[];
}

/** When the holder did what with a chunk, on its clock, milliseconds. It rests between slabIn's end and the posting only on a link. */
export interface HolderTimes {
  /** The first chunk's wait begins when the reader posted the READ; a streamed chunk's when its blocks were there. */
  waitStart: number;
  gatherStart: number;
  submitted: number;
  readbackStart: number;
  mapped: number;
  slabInStart: number;
  slabInEnd: number;
  /** null when the link is off. */
  link: { start: number; arrival: number } | null;
}

/** Holder to reader: blocks [first, first + count) of the group's list lie in the slot. */
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
  /** The holder's, of a streamed READ, which named none. */
  blockIds?: readonly BlockId[];
  times: HolderTimes;
  /** Of the bytes before they went into the slab; null when checksums are off. */
  checksum: number | null;
  /** Copies on the holder's device. */
  descriptors: number;
}

/** Reader to holder: the chunk's bytes have been taken. Sent for every chunk, also one that nobody wants any more. */
export interface CreditMessage {
  kind: 'credit';
  epoch: number;
  slot: number;
  transferId: string;
  /** The chunk's. */
  index: number;
}

/** Reader to holder: the rest is no longer wanted. */
export interface CancelMessage {
  kind: 'cancel';
  epoch: number;
  transferId: string;
}

/** Holder to reader: the READ is under way, however long it takes. */
export interface AliveMessage {
  kind: 'alive';
  epoch: number;
  transferId: string;
}

/** Holder to reader, last of its transfer. 'done': all chunks have been posted before. */
export interface ReadEndedMessage {
  kind: 'read_ended';
  epoch: number;
  transferId: string;
  outcome: TransferOutcome;
  message: string;
}

/** Either way, outside of any transfer. */
export interface NotificationMessage {
  kind: 'notification';
  notification: PeerNotification;
  /** Sender's request that it is about, for spans; null for heartbeats. */
  requestId: string | null;
  /** Sender's clock, milliseconds. */
  postedAt: number;
}

export type ToHolder = HelloMessage | ReadMessage | StreamMessage | CreditMessage | CancelMessage;
export type ToReader = WelcomeMessage | ChunkMessage | AliveMessage | ReadEndedMessage;
export type PeerMessage = ToHolder | ToReader | NotificationMessage;
