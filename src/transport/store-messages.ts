/**
 * What an engine and a store say to each other. Bytes travel by READs, as between engines: an engine reads what it was told
 * is there (the lease is the request that it names), and the store reads what it was offered (the offer is). Blocks are named
 * by their hashes: who knows a block's hash knows its tokens, all before them, and their salt.
 *
 * Of KV cache groups with a window no more is kept than a window: a prefix is there where full groups have all of it, and
 * windowed ones what the window at its end sees.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import type { BlockId, BlockIds } from '../engine/types.ts';

/** An offer among all that an engine made. */
export interface OfferPlace {
  engineId: string;
  /** Its number. */
  offer: number;
}

/** Engine to store: how long a prefix of these is there? Its blocks stay until the lease ends. */
export interface StoreLookup {
  kind: 'store_lookup';
  leaseId: string;
  hashes: readonly BlockHash[];
  /** Blocks that the store is still reading count: the answer comes when it has them. */
  wait: boolean;
  /** The answer comes when the store has heard of this offer, which another engine's hand-over named; left out: at once. */
  after?: OfferPlace;
  /** Milliseconds that having one of the blocks spares, about: below memory is left what takes longer. Left out: nothing is. */
  worthMs?: number | null;
  /** What of a prefix each group must have; left out: all of it. */
  groups?: readonly KvCacheSpec[];
  /** The prefix is to have whole chunks of so many blocks; left out: any length. */
  chunk?: number;
}

/** Store to engine: the answer. */
export interface StoreFound {
  kind: 'store_found';
  leaseId: string;
  /** The store's blocks by group, in the order of the hashes, the null block before a window; lists of one length. */
  blockIds: BlockIds;
  /** Blocks that were sought below memory for it, and how long that took, milliseconds. */
  raised: number;
  raisedMs: number;
}

/** Engine to store: nothing of the lease will be read. A READ under it ends it too. */
export interface StoreRelease {
  kind: 'store_release';
  leaseId: string;
}

/** Engine to store: these can be read from here until the offer is answered; block i lies at place i of its sequence. */
export interface StoreOffer {
  kind: 'store_offer';
  offerId: string;
  /** From 1 on, rising, of all offers of the engine. */
  number: number;
  hashes: readonly BlockHash[];
  /** Of the block before the first; left out: it begins its text. */
  parent?: BlockHash;
  /** Of which KV cache groups; left out: of all. */
  groups?: readonly number[];
}

/** Store to engine: nothing of the offer will be read any more. */
export interface StoreTaken {
  kind: 'store_taken';
  offerId: string;
  /** What the store has read of it, by group and place in the offer; what it had before is not read again. */
  taken: readonly (readonly [group: number, place: number, storeBlock: BlockId])[];
}

export type StoreMessage = StoreLookup | StoreFound | StoreRelease | StoreOffer | StoreTaken;
