/** Prefix cache changes, in the terms of vLLM's KV events. */
import type { TokenIds } from '../config/token-ids.ts';
import type { BlockHash } from './block-hash.ts';

export type CacheEvent =
  | {
      kind: 'stored';
      group: number;
      blockHashes: readonly BlockHash[];
      parentBlockHash: BlockHash | null;
      tokenIds: TokenIds;
      blockSize: number;
    }
  | { kind: 'removed'; group: number; blockHashes: readonly BlockHash[] }
  | { kind: 'cleared' };
