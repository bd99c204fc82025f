/** What an engine has of a token sequence, for whoever asks without wanting to compute. */
import { commonPrefixLength, type TokenIds } from '../../config/token-ids.ts';
import type { BlockHash } from '../block-hash.ts';
import type { HeldBlocks } from '../kv-connector.ts';
import type { PolicyDeps } from '../scheduler.ts';
import type { BlockIds } from '../types.ts';

/** Ended request's blocks that wait for a reader, as far as they hold the sequence. */
export interface HeldPrefix {
  requestId: string;
  /** 'prefill': P's, for D. 'decode': D's, for the next turn's P. */
  direction: 'prefill' | 'decode';
  /** Leading tokens of the sequence whose KV they hold; a last block may be partly filled. */
  numTokens: number;
  /** By group, those that hold these tokens. */
  blockIds: BlockIds;
  /** Engine's clock, milliseconds. */
  deadlineMs: number;
}

export interface CacheLookup {
  /** Tokens. */
  blockSize: number;
  /** Leading tokens in the prefix cache, whole blocks. */
  cachedTokens: number;
  /** Of these, what a request for exactly this prompt would hit: its last token must run to give logits. */
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

/** Holds that share a prefix with the sequence, the longest first. Another salt shares nothing. */
function heldPrefixes(
  holds: readonly HeldBlocks[],
  { cache, queues }: Pick<PolicyDeps, 'cache' | 'queues'>,
  wanted: { tokenIds: TokenIds; cacheSalt: string | null; blockSize: number },
): HeldPrefix[] {
  const found = holds.flatMap(({ requestId, direction, blockIds, deadline }) => {
    const request = queues.known.get(requestId);
    if (!request || request.cacheSalt !== wanted.cacheSalt) return [];
    const { allTokenIds, numComputedTokens } = request;
    const numTokens = Math.min(commonPrefixLength(wanted.tokenIds, allTokenIds), numComputedTokens);
    // What a window saw further back is not there any more.
    const next = Math.min(numTokens, wanted.tokenIds.length - 1);
    if (numTokens === 0 || !cache.sees(request, next, numTokens)) return [];
    const blocks = Math.ceil(numTokens / wanted.blockSize);
    const prefixIds = blockIds.map((ids) => ids.slice(0, blocks));
    return [{ requestId, direction, numTokens, blockIds: prefixIds, deadlineMs: deadline }];
  });
  return found.sort((a, b) => b.numTokens - a.numTokens);
}
