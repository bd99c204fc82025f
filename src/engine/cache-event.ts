/** Prefix cache changes, in the terms of vLLM's KV events. */
import type { TokenIds } from '../config/token-ids.ts';
import type { BlockHash } from './block-hash.ts';

/** Where a block is stored: an engine's device, a store's memory, its folder, or the server below it. */
export type Medium = 'GPU' | 'CPU' | 'DISK' | 'REMOTE';

/**
 * `medium` defaults to 'GPU'. A store knows only hashes, and so does an engine that tells a new listener what it has cached:
 * such events have no tokens and no parent.
 */
export type CacheEvent =
  | {
      kind: 'stored';
      group: number;
      blockHashes: readonly BlockHash[];
      parentBlockHash: BlockHash | null;
      tokenIds: TokenIds;
      blockSize: number;
      medium?: Medium;
    }
  | { kind: 'removed'; group: number; blockHashes: readonly BlockHash[]; medium?: Medium }
  | { kind: 'cleared' };
