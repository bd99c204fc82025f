/** What the offloading connector's scheduler side tells its worker side: lookups at once, all else once a step. */
import type { BlockHash } from '../../engine/block-hash.ts';
import type { BlockIds } from '../../engine/types.ts';
import type { StoreLookup } from '../../transport/store-messages.ts';
import type { BlockPair } from '../../transport/types.ts';

/** Blocks that the store may read; block i of every group has hash i. */
export interface Save {
  /** From 1 on, rising, of all that the engine offers. */
  number: number;
  hashes: readonly BlockHash[];
  /** Of the block before the first; left out: it begins its text. */
  parent?: BlockHash;
  blockIds: BlockIds;
  /** The groups that it is of; left out: all. */
  groups?: readonly number[];
  /** Of groups with a window, which give blocks back while their request goes on. */
  window?: true;
}

export interface Load {
  /** What the store keeps for it. */
  leaseId: string;
  pairs: readonly BlockPair[];
  numTokens: number;
  /** Those that come by a second hop in one turn. */
  twice: readonly BlockPair[];
}

/** What the store is asked about a request that waits. */
export type Lookup = Omit<StoreLookup, 'kind'> & { requestId: string };

/** Drained when built. In this order. */
export interface OffloadingMetadata {
  /** Requests that gave their blocks back: nothing of them may be read that was not submitted. */
  revoked: ReadonlySet<string>;
  /** The same of what was offered of their windows alone. */
  passed: ReadonlySet<string>;
  /** Leases that will not be read. */
  released: readonly string[];
  /** By request. */
  loads: ReadonlyMap<string, Load>;
  saves: readonly (Save & { requestId: string })[];
  /** Ended requests whose blocks stay until all that was to be saved of them is, with how many they are. */
  finished: ReadonlyMap<string, number>;
}
