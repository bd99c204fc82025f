/** The routing policy of a simulated fleet, and what it sees of the engines. */
import type { KvCacheSpec } from '../config/engine.ts';
import { DEFAULT_ROUTING, type RoutingChoice } from '../config/routing.ts';
import { kvBytesOf } from '../connector/policy/cost-model.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import { type RoutingDeps, seededDraws } from '../router/policies/definition.ts';
import { makePolicy, reportsNeeded } from '../router/policies/registry.ts';
import { PrefixIndex } from '../router/prefix-index.ts';
import type { RouterPolicy } from '../router/turn-planner.ts';
import { EngineViews } from '../router/views.ts';
import { type PastRouting, replayedRouting } from './replayed-routing.ts';
import { simulatedHasher } from './tokens/digests.ts';

interface ReportNeeds {
  load: boolean;
  cache: boolean;
}

export class SimulatedRouting {
  readonly views: EngineViews;
  /** What engines must report. */
  readonly reported: ReportNeeds;
  readonly #deps: RoutingDeps;
  readonly #chosen: PastRouting | null;
  #active: RouterPolicy & { needs: ReportNeeds };

  /** `changes`: the policy may change, so engines report everything that any policy could use. Throws ConfigError. */
  constructor(
    { routing = DEFAULT_ROUTING, weightSeed, blockSize, signalAgeMs = 0 }: ClusterOptions,
    { groups, blockBytes }: { groups: readonly KvCacheSpec[]; blockBytes: number },
    changes: boolean,
    chosen: PastRouting | null = null,
  ) {
    this.#chosen = chosen;
    const index = new PrefixIndex({ hasher: simulatedHasher, blockSize }, groups);
    this.views = new EngineViews(index, () => signalAgeMs);
    const kvBytes = kvBytesOf(blockSize, blockBytes, groups);
    this.#deps = { draws: seededDraws(weightSeed), blockSize, kvBytes };
    this.#active = this.#build(routing);
    this.reported = changes ? { load: true, cache: true } : this.#active.needs;
  }

  get active(): RouterPolicy & { needs: ReportNeeds } {
    return this.#active;
  }

  /** Applies to turns that arrive from now on; what the policy before had learned is forgotten. Throws ConfigError. */
  change(routing: RoutingChoice): void {
    this.#active = this.#build(routing);
  }

  /** The engine has ended, and its id never comes back. */
  forget(engineId: string): void {
    this.views.forget(engineId);
    this.#active.policy.forget?.(engineId);
  }

  #build(routing: RoutingChoice): RouterPolicy & { needs: ReportNeeds } {
    const built = makePolicy(routing, this.#deps);
    const policy = this.#chosen ? replayedRouting(built, this.#chosen) : built;
    return { name: routing.name, policy, needs: reportsNeeded(routing), views: this.views };
  }
}
