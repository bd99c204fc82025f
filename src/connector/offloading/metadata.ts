/** Messages from the offloading connector's scheduler side to its worker side: lookups immediately, the rest once per step. */
import type { BlockHash } from '../../engine/block-hash.ts';
import type { BlockIds } from '../../engine/types.ts';
import type { StoreLookup } from '../../transport/store-messages.ts';
import type { BlockPair } from '../../transport/types.ts';

/** Blocks offered to the store. Block i of every group has hash i. */
export interface Save {
  /** Increasing from 1, across all offers of the engine. */
  number: number;
  hashes: readonly BlockHash[];
  /** Hash of the block before the first. Absent if the first block begins its sequence. */
  parent?: BlockHash;
  blockIds: BlockIds;
  /** The groups that are offered. Default: all. */
  groups?: readonly number[];
  /** Set for windowed groups, which free blocks while their request runs. */
  window?: true;
}

export interface Load {
  /** The lease under which the store keeps the blocks. */
  leaseId: string;
  pairs: readonly BlockPair[];
  numTokens: number;
  /** The pairs that take a second hop in this turn. */
  twice: readonly BlockPair[];
}

/** A lookup in the store for a waiting request. */
export type Lookup = Omit<StoreLookup, 'kind'> & { requestId: string };

/** Covers what happened since the last one. Applied in the order of its fields. */
export interface OffloadingMetadata {
  /** Requests whose blocks were freed: their offers end, and no further gather of them may be submitted. */
  revoked: ReadonlySet<string>;
  /** The same, but only for offers of the requests' windows. */
  passed: ReadonlySet<string>;
  /** Leases that will not be read. */
  released: readonly string[];
  /** By request id. */
  loads: ReadonlyMap<string, Load>;
  saves: readonly (Save & { requestId: string })[];
  /** Ended requests whose blocks are kept until all their offers have ended: the number of blocks. */
  finished: ReadonlyMap<string, number>;
}
