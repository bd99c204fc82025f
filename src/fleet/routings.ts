/** The routing policy that is in force, and those by which single turns were asked to be routed: each keeps track of its own turns. */
import { ROUTING_NAMES, routingProblem } from '../config/routing.ts';
import { ConfigError, RoutingError } from '../errors.ts';
import type { EnginePool } from './engine-pool.ts';
import { type MadePolicy, policyOf, RoutingInForce } from './routing-in-force.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';
import type { Watches } from './watches.ts';

/** Each hears of every engine's news: clients cannot have as many made as they like. */
const MOST_MIXES = 16;

/** Made since turns asked for it. */
interface Named {
  routing: RoutingInForce;
  /** Under way: it stays as long. */
  turns: number;
}

const isMix = (name: string): boolean => !ROUTING_NAMES.some((policy) => policy === name);

export class Routings {
  readonly #watches: Watches;
  #inForce: RoutingInForce;
  /** Least recently used first. */
  readonly #named = new Map<string, Named>();

  /** `policy`: by policyOf(), of the options. */
  constructor(pool: Pick<EnginePool, 'all'>, watches: Watches, policy: MadePolicy, options: ClusterOptions) {
    this.#watches = watches;
    this.#inForce = new RoutingInForce(policy, options, watches);
    for (const engine of pool.all) this.follow(engine);
  }

  /** That of the name, which a turn has entered; without one, the one in force. */
  of(name: string | null): RoutingInForce {
    return (name !== null && this.#named.get(name)?.routing) || this.#inForce;
  }

  /**
   * For a turn that asks for it, until it calls what it is given. Rejects with RoutingError for a name that is none, for
   * parameters that it does not take, and while turns use as many mixes as there may be.
   */
  async enter(name: string, options: ClusterOptions, blockBytes: number): Promise<() => void> {
    if (name === this.#inForce.name) return () => {};
    const made = this.#named.get(name) ? null : await this.#made(name, options, blockBytes);
    // Another turn may have had it made meanwhile.
    let named = this.#named.get(name);
    if (!named) {
      if (isMix(name)) this.#makeRoom();
      named = { routing: new RoutingInForce(made!.policy, made!.options, this.#watches), turns: 0 };
    }
    this.#named.delete(name);
    this.#named.set(name, named);
    const entered = named;
    entered.turns++;
    return () => void entered.turns--;
  }

  /** Settings have changed: what was known before is forgotten. */
  replace(policy: MadePolicy, options: ClusterOptions): void {
    for (const routing of this.#all()) routing.end();
    this.#named.clear();
    this.#inForce = new RoutingInForce(policy, options, this.#watches);
  }

  follow(engine: ThreadEngine): void {
    engine.onDeath(() => {
      for (const { views, policy } of this.#all()) {
        views.forget(engine.engineId);
        policy.forget?.(engine.engineId);
      }
    });
  }

  #all(): RoutingInForce[] {
    return [this.#inForce, ...[...this.#named.values()].map(({ routing }) => routing)];
  }

  async #made(name: string, options: ClusterOptions, blockBytes: number) {
    const problem = routingProblem(name);
    if (problem !== null) throw new RoutingError(`the routing policy is '${name}': wanted ${problem}`);
    const asked = { ...options, routing: { name, parameters: options.routing?.parameters ?? {} } };
    try {
      return { policy: await policyOf(asked, blockBytes), options: asked };
    } catch (error) {
      // What else goes wrong is not the request's.
      throw error instanceof ConfigError ? new RoutingError(error.message, { cause: error }) : error;
    }
  }

  /** For one more mix: the least recently used one goes. */
  #makeRoom(): void {
    const mixes = [...this.#named].filter(([name]) => isMix(name));
    if (mixes.length < MOST_MIXES) return;
    const unused = mixes.find(([, { turns }]) => turns === 0);
    if (!unused) {
      throw new RoutingError(
        `requests that are under way use ${MOST_MIXES} mixes of policies: ask for one of them or for a single policy, or come back`,
      );
    }
    const [name, { routing }] = unused;
    routing.end();
    this.#named.delete(name);
  }
}
