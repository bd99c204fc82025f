/**
 * Messages between an engine and a store. Bytes are moved by READs, as between engines. An engine reads what a lookup found (the
 * READ names the lease as its request), and the store reads what was offered (the READ names the offer). Blocks are identified
 * by hash: whoever knows a block's hash knows its tokens, all tokens before them, and their salt.
 *
 * For a windowed KV cache group, the store keeps only one window. A prefix is present if full groups have all of it, and
 * windowed groups what the window at its end sees.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { BlockHash } from '../engine/block-hash.ts';
import type { BlockId, BlockIds } from '../engine/types.ts';

/** Identifies one of an engine's offers. */
export interface OfferPlace {
  engineId: string;
  /** StoreOffer.number. */
  offer: number;
}

/** Engine to store: asks how long a prefix of these blocks is present. The blocks found are kept until the lease ends. */
export interface StoreLookup {
  kind: 'store_lookup';
  leaseId: string;
  hashes: readonly BlockHash[];
  /** Include blocks that the store is still reading; the answer comes when it has them. */
  wait: boolean;
  /** Answer only after this offer, named in another engine's handover, has been received. Default: immediately. */
  after?: OfferPlace;
  /** Estimated time saved per block, ms: blocks below memory that take longer to bring up are left there. Default: no limit. */
  worthMs?: number | null;
  /** What each group must have of a prefix. Default: all of it. */
  groups?: readonly KvCacheSpec[];
  /** The prefix must be a multiple of this many blocks. Default: any length. */
  chunk?: number;
}

/** Store to engine: the answer. */
export interface StoreFound {
  kind: 'store_found';
  leaseId: string;
  /** The store's blocks by group, in the order of the hashes, null before a window. All lists have the same length. */
  blockIds: BlockIds;
  /** Number of block loads from lower tiers that the lookup started, their bytes, and how long it waited, ms. */
  raised: number;
  raisedBytes: number;
  raisedMs: number;
}

/** Engine to store: the lease will not be read. A READ also ends its lease. */
export interface StoreRelease {
  kind: 'store_release';
  leaseId: string;
}

/** Engine to store: these blocks can be read until the offer is answered. Block i has index i in the offer's sequence. */
export interface StoreOffer {
  kind: 'store_offer';
  offerId: string;
  /** Increasing from 1, across all offers of the engine since it was last configured. */
  number: number;
  hashes: readonly BlockHash[];
  /** Hash of the block before the first. Absent if the first block begins its sequence. */
  parent?: BlockHash;
  /** The KV cache groups that are offered. Default: all. */
  groups?: readonly number[];
}

/** Store to engine: the offer is answered, and nothing more of it will be read. */
export interface StoreTaken {
  kind: 'store_taken';
  offerId: string;
  /** Blocks that the store read, by group and index in the offer. Blocks that it already had are not read again. */
  taken: readonly (readonly [group: number, place: number, storeBlock: BlockId])[];
}

export type StoreMessage = StoreLookup | StoreFound | StoreRelease | StoreOffer | StoreTaken;
