/**
 * The active routing policy and what it sees of the engines. They report load and cache events only while the policy
 * looks at them.
 */
import { DEFAULT_ROUTING } from '../config/routing.ts';
import { kvBytesOf } from '../connector/policy/cost-model.ts';
import { createBlockHasher } from '../engine/block-hash.ts';
import { cacheGroups } from '../engine/kv-cache-spec.ts';
import type { RoutingPolicy } from '../router/plan.ts';
import { seededDraws } from '../router/policies/definition.ts';
import { roundRobin } from '../router/policies/round-robin.ts';
import { PrefixIndex } from '../router/prefix-index.ts';
import { EngineViews } from '../router/views.ts';
import type { CacheWatch } from './cache-watch.ts';
import type { LoadWatch } from './load-watch.ts';
import { HASH_SEED } from './options.ts';
import type { ClusterOptions } from './types.ts';

/** A policy, and what it needs engines to report. */
export interface BuiltPolicy {
  policy: RoutingPolicy;
  needs: { load: boolean; cache: boolean };
}

/**
 * Creates the policy that the options name. `blockBytes`: bytes per KV block, the same for every group. Policies
 * other than the default are loaded on demand. Rejects with ConfigError.
 */
export async function buildPolicy(options: ClusterOptions, blockBytes: number): Promise<BuiltPolicy> {
  const { routing = DEFAULT_ROUTING, weightSeed, blockSize } = options;
  const kvBytes = kvBytesOf(blockSize, blockBytes, cacheGroups(options));
  const deps = { draws: seededDraws(weightSeed), blockSize, kvBytes };
  if (routing.name === DEFAULT_ROUTING.name && Object.keys(routing.parameters).length === 0)
    return { policy: roundRobin.create({}, deps), needs: { load: false, cache: false } };
  const { reportsNeeded, makePolicy } = await import('../router/policies/registry.ts');
  const policy = makePolicy(routing, deps);
  return { policy, needs: reportsNeeded(routing) };
}

export class ActiveRouting {
  readonly name: string;
  readonly policy: RoutingPolicy;
  readonly views: EngineViews;
  readonly needs: BuiltPolicy['needs'];
  readonly #ends: (() => void)[] = [];

  /** `built`: by buildPolicy(), from the same options. */
  constructor(
    { policy, needs }: BuiltPolicy,
    options: ClusterOptions,
    { caches, loads }: { caches: CacheWatch; loads: LoadWatch },
  ) {
    const { routing = DEFAULT_ROUTING, signalAgeMs = 0, blockSize } = options;
    this.name = routing.name;
    this.policy = policy;
    this.needs = needs;
    const hashing = { hasher: createBlockHasher(HASH_SEED), blockSize };
    const index = new PrefixIndex(hashing, cacheGroups(options));
    this.views = new EngineViews(index, () => signalAgeMs);
    if (this.needs.cache) this.#ends.push(caches.listen((update) => this.views.cached(update)));
    if (this.needs.load)
      this.#ends.push(loads.listen(({ engineId, load }) => this.views.load(engineId, load)));
  }

  end(): void {
    for (const end of this.#ends.splice(0)) end();
  }
}
