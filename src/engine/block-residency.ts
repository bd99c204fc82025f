/**
 * How long blocks stay, of a sample of them: from allocation to eviction, since the last hit, and between hits. vLLM's
 * KVCacheMetricsCollector (v1/core/kv_cache_metrics.py, --kv-cache-metrics): a block is chosen when it is allocated, and
 * told of when it is evicted.
 */
import type { BlockId, Clock } from './types.ts';

/** Milliseconds, of one evicted block. */
export interface BlockStay {
  /** Since it was allocated. */
  lifetimeMs: number;
  /** Since it was last hit; never: since it was allocated. */
  idleMs: number;
  /** Between its last hits, of which four are known. */
  reuseGapsMs: readonly number[];
}

/** Hits of a block that are remembered. */
const HITS = 4;

interface Stay {
  bornMs: number;
  /** Oldest first. */
  hitMs: number[];
}

export interface BlockResidencyDeps {
  clock: Clock;
  /** Of blocks that are chosen, 0 to 1. */
  share: number;
  /** At 0 or above, below 1. */
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

  /** Its content is given up: it is allocated anew, or its hash was taken away. */
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

  /** The cache was cleared: of what is there nothing is told. */
  clear(): void {
    this.#stays.clear();
  }

  /** Of blocks that were evicted since the last call. */
  take(): readonly BlockStay[] {
    const ended = this.#ended;
    if (ended.length > 0) this.#ended = [];
    return ended;
  }
}
