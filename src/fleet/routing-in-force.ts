/** The routing policy that is in force, and what it sees of the engines: they tell their load and caches only while it looks. */
import { DEFAULT_ROUTING } from '../config/routing.ts';
import { createBlockHasher } from '../engine/block-hash.ts';
import type { RoutingPolicy } from '../router/plan.ts';
import { seededDraws } from '../router/policies/definition.ts';
import { looksAt, makePolicy } from '../router/policies/registry.ts';
import { PrefixIndex } from '../router/prefix-index.ts';
import { EngineViews } from '../router/views.ts';
import type { CacheWatch } from './cache-watch.ts';
import { HASH_SEED } from './options.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** The policy that options name. Throws ConfigError. */
export function policyOf(options: ClusterOptions, kvBytesPerToken: number): RoutingPolicy {
  const { routing = DEFAULT_ROUTING, weightSeed, blockSize } = options;
  return makePolicy(routing, { draws: seededDraws(weightSeed), blockSize, kvBytesPerToken });
}

export class RoutingInForce {
  readonly name: string;
  readonly policy: RoutingPolicy;
  readonly views: EngineViews;
  readonly looksAt: { load: boolean; cache: boolean };
  readonly #ends: (() => void)[] = [];

  /** `policy`: what policyOf() made of the options. */
  constructor(
    policy: RoutingPolicy,
    { routing = DEFAULT_ROUTING, signalAgeMs = 0, blockSize }: ClusterOptions,
    engines: readonly ThreadEngine[],
    caches: CacheWatch,
  ) {
    this.name = routing.name;
    this.policy = policy;
    this.looksAt = looksAt(routing);
    const hashing = { hasher: createBlockHasher(HASH_SEED), blockSize };
    this.views = new EngineViews(new PrefixIndex(hashing), () => signalAgeMs);
    if (this.looksAt.cache) this.#ends.push(caches.listen((news) => this.views.cached(news)));
    for (const engine of engines) this.follow(engine);
  }

  follow(engine: ThreadEngine): void {
    engine.onDeath(() => this.views.forget(engine.engineId));
    if (!this.looksAt.load || engine.ended) return;
    const wanted = (load: boolean) => void engine.inspection.reportLoad(load).catch(() => {});
    const end = engine.onEvent((event) => {
      if (event.kind === 'load') this.views.load(engine.engineId, event.load);
    });
    this.#ends.push(end, () => wanted(false));
    wanted(true);
  }

  end(): void {
    for (const end of this.#ends.splice(0)) end();
  }
}
