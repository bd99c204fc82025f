/**
 * Measures, for a sample of blocks, the time from allocation to eviction, since the last hit, and between hits. This is
 * vLLM's KVCacheMetricsCollector (v1/core/kv_cache_metrics.py, --kv-cache-metrics): a block is sampled when it is allocated,
 * and reported when it is evicted.
 */
import type { BlockId, Clock } from './types.ts';

/** One evicted block's times, ms. */
export interface BlockStay {
  /** From allocation to eviction. */
  lifetimeMs: number;
  /** From the last hit, or from allocation if never hit, to eviction. */
  idleMs: number;
  /** Between its last hits; the last four are known. */
  reuseGapsMs: readonly number[];
}

/** Number of hits remembered per block. */
const HITS = 4;

interface Stay {
  bornMs: number;
  /** Oldest first. */
  hitMs: number[];
}

export interface BlockResidencyDeps {
  clock: Clock;
  /** Share of blocks to sample, 0 to 1. */
  share: number;
  /** Uniform in [0, 1). */
  random: () => number;
}

export class BlockResidency {
  readonly #deps: BlockResidencyDeps;
  readonly #stays = new Map<BlockId, Stay>();
  #ended: BlockStay[] = [];

  constructor(deps: BlockResidencyDeps) {
    this.#deps = deps;
  }

  allocated(id: BlockId): void {
    const { random, share, clock } = this.#deps;
    if (random() < share) this.#stays.set(id, { bornMs: clock.now(), hitMs: [] });
  }

  hit(id: BlockId): void {
    const stay = this.#stays.get(id);
    if (!stay) return;
    stay.hitMs.push(this.#deps.clock.now());
    if (stay.hitMs.length > HITS) stay.hitMs.shift();
  }

  /** The block's content is lost: it is being allocated again, or its hash was removed. */
  evicted(id: BlockId): void {
    const stay = this.#stays.get(id);
    if (!stay) return;
    this.#stays.delete(id);
    const { bornMs, hitMs } = stay;
    const now = this.#deps.clock.now();
    this.#ended.push({
      lifetimeMs: now - bornMs,
      idleMs: now - (hitMs.at(-1) ?? bornMs),
      reuseGapsMs: hitMs.slice(1).map((at, i) => at - hitMs[i]!),
    });
  }

  /** The cache was cleared: the present blocks are not reported. */
  clear(): void {
    this.#stays.clear();
  }

  /** Takes the sampled blocks that were evicted since the last call. */
  take(): readonly BlockStay[] {
    const ended = this.#ended;
    if (ended.length > 0) this.#ended = [];
    return ended;
  }
}
