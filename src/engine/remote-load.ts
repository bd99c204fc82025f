/** How a load of remote KV ends for its request. vLLM's rules for async loads; queues are the scheduler's business. */
import type { KvCacheManager } from './kv-cache-manager.ts';
import type { ConnectorOutput } from './kv-connector.ts';
import type { Request } from './request.ts';

export type FailedLoad = ConnectorOutput['failedRecving'][number];

/**
 * Whether a failed load ends its request or is made up for by computing. A holder that declined has dropped the blocks
 * in an orderly way, which is no fault: always recomputed.
 */
export function afterFailure(failed: FailedLoad, policy: 'fail' | 'recompute'): 'fail' | 'recompute' {
  return failed.outcome === 'declined' ? 'recompute' : policy;
}

/** Keeps what came before the first invalid block. The block table stays whole: what is missing will be computed into it. */
export function keepValidPrefix(request: Request, failed: FailedLoad, cache: KvCacheManager): void {
  const invalid = failed.invalidBlockIds.map((ids) => new Set(ids));
  const firsts = cache
    .blockIds(request)
    .map((ids, group) => ids.findIndex((id) => invalid[group]?.has(id)))
    .filter((index) => index >= 0);
  const valid = firsts.length > 0 ? Math.min(...firsts) * cache.blockSize : request.localHitTokens;
  const kept = Math.max(request.localHitTokens, Math.min(request.numComputedTokens, valid));
  request.shortenLoad(kept, { by: 'transfer', reason: `pull ${failed.outcome}: ${failed.message}` });
}

/**
 * Nothing writes into the request's blocks any more. 'loaded': its computed tokens are there, and it has its blocks.
 * 'restart': nothing usable came, its blocks are free.
 */
export function completeLoad(request: Request, cache: KvCacheManager): 'loaded' | 'restart' {
  if (request.numComputedTokens === 0) {
    cache.free(request);
    return 'restart';
  }
  cache.cacheBlocks(request, request.numComputedTokens);
  // Everything was pulled: the last token runs once more, in place, for its logits.
  if (request.numComputedTokens === request.numTokens) request.shortenLoad(request.numTokens - 1, null);
  return 'loaded';
}
