/** The active routing policy, and the policies that single turns ask for. Each tracks only its own turns. */
import { routingNames, routingProblem } from '../config/routing.ts';
import { ConfigError, RoutingError } from '../errors.ts';
import { ActiveRouting, type BuiltPolicy, buildPolicy } from './active-routing.ts';
import type { EnginePool } from './engine-pool.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';
import type { Watches } from './watches.ts';

/** Limit on mixes. Each one listens to every engine's reports, so clients must not be able to create any number. */
const MOST_MIXES = 16;

/** A policy created because a turn asked for it. */
interface Named {
  routing: ActiveRouting;
  /** Turns under way; it is kept while there are any. */
  turns: number;
}

const isMix = (name: string): boolean => !routingNames().includes(name);

export class Routings {
  readonly #watches: Watches;
  #inForce: ActiveRouting;
  /** Least recently used first. */
  readonly #named = new Map<string, Named>();

  /** `policy`: by buildPolicy(), from the same options. */
  constructor(pool: Pick<EnginePool, 'all'>, watches: Watches, policy: BuiltPolicy, options: ClusterOptions) {
    this.#watches = watches;
    this.#inForce = new ActiveRouting(policy, options, watches);
    for (const engine of pool.all) this.follow(engine);
  }

  /** The policy of that name, which a turn must have entered; null: the active one. */
  of(name: string | null): ActiveRouting {
    return (name !== null && this.#named.get(name)?.routing) || this.#inForce;
  }

  /**
   * Makes the policy available to a turn until the returned function is called. Rejects with RoutingError for an
   * unknown name, for invalid parameters, and while turns use the maximum number of mixes.
   */
  async enter(name: string, options: ClusterOptions, blockBytes: number): Promise<() => void> {
    if (name === this.#inForce.name) return () => {};
    const built = this.#named.get(name) ? null : await this.#build(name, options, blockBytes);
    // Another turn may have created it meanwhile.
    let named = this.#named.get(name);
    if (!named) {
      if (isMix(name)) this.#makeRoom();
      named = { routing: new ActiveRouting(built!.policy, built!.options, this.#watches), turns: 0 };
    }
    this.#named.delete(name);
    this.#named.set(name, named);
    const entered = named;
    entered.turns++;
    return () => void entered.turns--;
  }

  /** Call when settings have changed: forgets everything known before. */
  replace(policy: BuiltPolicy, options: ClusterOptions): void {
    for (const routing of this.#all()) routing.end();
    this.#named.clear();
    this.#inForce = new ActiveRouting(policy, options, this.#watches);
  }

  follow(engine: ThreadEngine): void {
    engine.onDeath(() => {
      for (const { views, policy } of this.#all()) {
        views.forget(engine.engineId);
        policy.forget?.(engine.engineId);
      }
    });
  }

  #all(): ActiveRouting[] {
    return [this.#inForce, ...[...this.#named.values()].map(({ routing }) => routing)];
  }

  async #build(name: string, options: ClusterOptions, blockBytes: number) {
    const problem = routingProblem(name);
    if (problem !== null) throw new RoutingError(`the routing policy is '${name}': wanted ${problem}`);
    const withPolicy = { ...options, routing: { name, parameters: options.routing?.parameters ?? {} } };
    try {
      return { policy: await buildPolicy(withPolicy, blockBytes), options: withPolicy };
    } catch (error) {
      // Other errors are not the request's fault.
      throw error instanceof ConfigError ? new RoutingError(error.message, { cause: error }) : error;
    }
  }

  /** Makes room for one more mix by removing the least recently used one. */
  #makeRoom(): void {
    const mixes = [...this.#named].filter(([name]) => isMix(name));
    if (mixes.length < MOST_MIXES) return;
    const unused = mixes.find(([, { turns }]) => turns === 0);
    if (!unused) {
      throw new RoutingError(
        `requests under way already use ${MOST_MIXES} mixes of policies, the maximum: use one of them or a single policy, or retry later`,
      );
    }
    const [name, { routing }] = unused;
    routing.end();
    this.#named.delete(name);
  }
}
