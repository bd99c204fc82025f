/** The share of an engine's pool that its decoding requests use. All KV cache groups take their blocks from this pool. */
import type { CacheConfig } from '../../config/engine.ts';
import { skippedBlocks } from '../../engine/kv-cache-spec.ts';
import type { ScheduledBatch } from '../../engine/types.ts';

export class PoolShare {
  readonly #cache: CacheConfig;
  readonly #poolTokens: number;

  constructor(cache: CacheConfig) {
    this.#cache = cache;
    this.#poolTokens = (cache.numBlocks - 1) * cache.blockSize;
  }

  /** Of requests with this many tokens before their rows, in total. Only for full groups, which keep them all. */
  ofContext(decodeContext: number): number {
    return (this.#cache.groups.length * decodeContext) / this.#poolTokens;
  }

  ofBatch({ requests }: ScheduledBatch): number {
    const { groups, blockSize } = this.#cache;
    let kept = 0;
    for (const { tokenIds, startPosition } of requests) {
      if (tokenIds.length > 1) continue;
      for (const spec of groups)
        kept += startPosition - blockSize * skippedBlocks(spec, startPosition, blockSize);
    }
    return kept / this.#poolTokens;
  }
}
