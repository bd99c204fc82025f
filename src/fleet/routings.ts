/** The routing policy that is in force, and those by which single turns were asked to be routed: each keeps track of its own turns. */
import { routingProblem } from '../config/routing.ts';
import { RequestError } from '../errors.ts';
import type { EnginePool } from './engine-pool.ts';
import { type MadePolicy, policyOf, RoutingInForce } from './routing-in-force.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';
import type { Watches } from './watches.ts';

/** Each hears of every engine's news: clients cannot have as many made as they like. */
const MOST_NAMED = 16;

export class Routings {
  readonly #pool: EnginePool;
  readonly #watches: Watches;
  #inForce: RoutingInForce;
  readonly #named = new Map<string, RoutingInForce>();

  /** `policy`: by policyOf(), of the options. */
  constructor(pool: EnginePool, watches: Watches, policy: MadePolicy, options: ClusterOptions) {
    this.#pool = pool;
    this.#watches = watches;
    this.#inForce = this.#made(policy, options);
  }

  /** That of the name, which was prepared; without one, the one in force. */
  of(name: string | null): RoutingInForce {
    return (name !== null && this.#named.get(name)) || this.#inForce;
  }

  /** Rejects with RequestError for a name that is none, and with ConfigError for parameters that it does not take. */
  async prepare(name: string, options: ClusterOptions, blockBytes: number): Promise<void> {
    if (name === this.#inForce.name || this.#named.has(name)) return;
    const problem = routingProblem(name);
    if (problem !== null) throw new RequestError(`the routing policy is '${name}': wanted ${problem}`);
    if (this.#named.size >= MOST_NAMED)
      throw new RequestError(
        `requests have asked for ${MOST_NAMED} policies and mixes already: ask for one of them, or for the one in force`,
      );
    const parameters = options.routing?.parameters ?? {};
    const asked = { ...options, routing: { name, parameters } };
    const policy = await policyOf(asked, blockBytes);
    if (!this.#named.has(name)) this.#named.set(name, this.#made(policy, asked));
  }

  /** Settings have changed: what was known before is forgotten. */
  replace(policy: MadePolicy, options: ClusterOptions): void {
    for (const routing of [this.#inForce, ...this.#named.values()]) routing.end();
    this.#named.clear();
    this.#inForce = this.#made(policy, options);
  }

  follow(engine: ThreadEngine): void {
    for (const routing of [this.#inForce, ...this.#named.values()]) routing.follow(engine);
  }

  #made(policy: MadePolicy, options: ClusterOptions): RoutingInForce {
    return new RoutingInForce(policy, options, this.#pool.all, this.#watches);
  }
}
