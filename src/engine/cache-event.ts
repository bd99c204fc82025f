/** Prefix cache changes, in the terms of vLLM's KV events. */
import type { TokenIds } from '../config/token-ids.ts';
import type { BlockHash } from './block-hash.ts';

/** Where a block is: an engine's device, a store's memory, its folder, or the server below it. */
export type Medium = 'GPU' | 'CPU' | 'DISK' | 'REMOTE';

/** `medium` left out: 'GPU'. A store knows blocks by their hashes: it tells no tokens, and no parent. */
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
