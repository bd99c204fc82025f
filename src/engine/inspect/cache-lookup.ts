/** What an engine has of a token sequence, in its prefix cache and in holds. Changes nothing. */
import { commonPrefixLength, type TokenIds } from '../../config/token-ids.ts';
import type { BlockHash } from '../block-hash.ts';
import type { HeldBlocks } from '../kv-connector.ts';
import type { PolicyDeps } from '../scheduler.ts';
import type { BlockIds } from '../types.ts';

/** The part of a hold that shares a prefix with the sequence. */
export interface HeldPrefix {
  requestId: string;
  /** 'prefill': P's, for D. 'decode': D's, for the next turn's P. */
  direction: 'prefill' | 'decode';
  /** Leading tokens of the sequence whose KV it holds. The last block may be partly filled. */
  numTokens: number;
  /** The blocks of these tokens, by group. */
  blockIds: BlockIds;
  /** When the hold expires, ms on the engine's clock. */
  deadlineMs: number;
}

export interface CacheLookup {
  /** Tokens. */
  blockSize: number;
  /** Leading tokens in the prefix cache, in whole blocks. */
  cachedTokens: number;
  /** How many of these a request with this prompt would hit: its last token must run to produce logits. */
  hitTokens: number;
  /** Cached blocks by group, and their hashes. */
  blockIds: BlockIds;
  blockHashes: readonly BlockHash[];
  held: readonly HeldPrefix[];
}

export function lookup(
  tokenIds: TokenIds,
  cacheSalt: string | null,
  { cache, queues }: Pick<PolicyDeps, 'cache' | 'queues'>,
  holds: readonly HeldBlocks[],
): CacheLookup {
  const { numTokens, blockIds, blockHashes } = cache.lookupPrefix(tokenIds, cacheSalt);
  const { blockSize } = cache;
  const mostHit = Math.floor(Math.max(0, tokenIds.length - 1) / blockSize) * blockSize;
  return {
    blockSize,
    cachedTokens: numTokens,
    hitTokens:
      numTokens > mostHit ? cache.lookupPrefix(tokenIds.slice(0, mostHit), cacheSalt).numTokens : numTokens,
    blockIds,
    blockHashes,
    held: heldPrefixes(holds, { cache, queues }, { tokenIds, cacheSalt, blockSize }),
  };
}

/** Holds that share a prefix with the sequence, longest first. Only holds with the same salt count. */
function heldPrefixes(
  holds: readonly HeldBlocks[],
  { cache, queues }: Pick<PolicyDeps, 'cache' | 'queues'>,
  sequence: { tokenIds: TokenIds; cacheSalt: string | null; blockSize: number },
): HeldPrefix[] {
  const found = holds.flatMap(({ requestId, direction, blockIds, deadline }) => {
    const request = queues.known.get(requestId);
    if (!request || request.cacheSalt !== sequence.cacheSalt) return [];
    const { allTokenIds, numComputedTokens } = request;
    const numTokens = Math.min(commonPrefixLength(sequence.tokenIds, allTokenIds), numComputedTokens);
    // Blocks that a window has moved past are no longer there.
    const next = Math.min(numTokens, sequence.tokenIds.length - 1);
    if (numTokens === 0 || !cache.sees(request, next, numTokens)) return [];
    const blocks = Math.ceil(numTokens / sequence.blockSize);
    const prefixIds = blockIds.map((ids) => ids.slice(0, blocks));
    return [{ requestId, direction, numTokens, blockIds: prefixIds, deadlineMs: deadline }];
  });
  return found.sort((a, b) => b.numTokens - a.numTokens);
}
