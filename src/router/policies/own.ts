/** Routing policies of the user's own, from a module: checked once when it is loaded, and at each decision. */
import { z } from 'zod';
import { parseParameters } from '../../config/parameters.ts';
import { ROUTING_NAMES } from '../../config/routing.ts';
import { ConfigError, messageOf, PolicyError } from '../../errors.ts';
import type { TurnSide } from '../../measure/spans/spans.ts';
import type { Candidates, EngineView, RouteRequest, Routing, RoutingEvent, RoutingPolicy } from '../plan.ts';
import type { PolicyDefinition, RoutingDeps } from './definition.ts';

/** What a module exports by default, or several of them in an array. docs/fleet.md has an example. */
export interface OwnRoutingPolicy<Values extends OwnParameters = OwnParameters> {
  /** Lower-case letters, digits and hyphens. */
  name: string;
  /** What engines shall report: their load (`signals`), their prefix caches (`cachedTokens`). Absent: nothing. */
  needs?: readonly ('load' | 'cache')[];
  /** Parameters with their defaults; --routing-config changes them. */
  parameters?: Values;
  /** Called for each fleet. The policy must have no clock and draw no random numbers but `deps.draws`. */
  create(parameters: Values, deps: RoutingDeps): OwnPolicy;
}

export type OwnParameters = Readonly<Record<string, number | string | boolean>>;

/** `route` may leave out `why`. */
export interface OwnPolicy extends Omit<RoutingPolicy, 'route'> {
  route(...asked: Parameters<RoutingPolicy['route']>): Omit<Routing, 'why'> & { why?: string };
}

const NAME = 'wanted lower-case letters, digits and hyphens, such as my-policy';
const isFunction = (value: unknown): value is (...args: never) => unknown => typeof value === 'function';

const exportedSchema = z.strictObject({
  name: z.string({ error: NAME }).regex(/^[a-z][a-z0-9-]*$/, { error: NAME }),
  needs: z.array(z.enum(['load', 'cache'])).default([]),
  parameters: z.record(z.string(), z.union([z.number(), z.string(), z.boolean()])).default({}),
  create: z.custom<OwnRoutingPolicy['create']>(isFunction, {
    error: 'wanted a function (parameters, deps) that returns { route(request, candidates) }',
  }),
});
type Exported = z.output<typeof exportedSchema>;

/** By name. `file`: for messages. Throws ConfigError. */
export function ownPolicies(module: unknown, file: string): ReadonlyMap<string, PolicyDefinition> {
  const exported = (module as { default?: unknown }).default;
  if (exported === undefined)
    throw new ConfigError(
      `${file} has no default export: wanted a routing policy { name, create }, or several in an array (docs/fleet.md shows one)`,
    );
  const found = new Map<string, PolicyDefinition>();
  for (const [i, each] of [exported].flat().entries()) {
    const place = Array.isArray(exported) ? `${file}: default[${i}]` : `${file}: default`;
    const own = parseParameters(exportedSchema, each, (path) => [place, ...path].join('.'));
    if (found.has(own.name) || (ROUTING_NAMES as readonly string[]).includes(own.name))
      throw new ConfigError(
        `${place}.name is '${own.name}', which is the name of another policy: give it one of its own`,
      );
    found.set(own.name, definitionOf(own, file));
  }
  if (found.size === 0)
    throw new ConfigError(`${file} exports an empty list: wanted at least one routing policy`);
  return found;
}

const definitionOf = (own: Exported, file: string): PolicyDefinition => ({
  help: "the user's own",
  source: file,
  needs: own.needs,
  parameters: z.strictObject(
    Object.fromEntries(Object.entries(own.parameters).map(([key, value]) => [key, likeThe(value)])),
  ),
  create(parameters, deps) {
    let policy: OwnPolicy | undefined;
    try {
      policy = own.create(parameters as OwnParameters, deps);
    } catch (cause) {
      throw new ConfigError(`${file}: create() of '${own.name}' threw ${cause}`, { cause });
    }
    if (isFunction(policy?.route)) return new CheckedPolicy(policy, own.name, file);
    throw new ConfigError(
      `${file}: create() of '${own.name}' returned no policy: wanted { route(request, candidates) }`,
    );
  },
});

const likeThe = (value: number | string | boolean): z.ZodType => {
  if (typeof value === 'number') return z.number().default(value);
  return typeof value === 'string' ? z.string().default(value) : z.boolean().default(value);
};

const CANDIDATE = { error: 'wanted one of the candidates' };
const view = z.looseObject({ engineId: z.string(CANDIDATE) }, CANDIDATE);

const chosenSchema = z.strictObject({
  prefill: view,
  decode: view,
  alone: z.boolean().optional(),
  recompute: z.boolean().optional(),
  refused: z.string().optional(),
  why: z.string().optional(),
  predictedTtftMs: z.number().optional(),
  scores: z
    .array(
      z.strictObject({
        engineId: z.string(),
        side: z.enum(['prefill', 'decode']),
        score: z.number(),
        best: z.enum(['most', 'least']),
      }),
    )
    .optional(),
});

/** Reports each failure as a PolicyError that names the policy. */
class CheckedPolicy implements RoutingPolicy {
  readonly #policy: OwnPolicy;
  readonly #name: string;
  readonly #file: string;
  /** Its state is unknown after a failed observe() or forget(), so it serves no more turns. */
  #failed: PolicyError | null = null;

  constructor(policy: OwnPolicy, name: string, file: string) {
    this.#policy = policy;
    this.#name = name;
    this.#file = file;
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    if (this.#failed) throw this.#failed;
    let chosen: unknown;
    try {
      chosen = this.#policy.route(request, candidates);
    } catch (cause) {
      throw this.#error(`route() threw ${cause}`, cause);
    }
    if (chosen instanceof Promise)
      throw this.#error('route() returned a promise: it must decide at once, from what it is given');
    try {
      const routing = parseParameters(chosenSchema, chosen, (path) => ['route()', ...path].join('.'));
      return {
        why: this.#name,
        ...routing,
        prefill: candidateOf('prefill', routing.prefill.engineId, candidates),
        decode: candidateOf('decode', routing.decode.engineId, candidates),
      } as Routing;
    } catch (cause) {
      throw this.#error(messageOf(cause), cause);
    }
  }

  observe(event: RoutingEvent): void {
    this.#tell('observe', () => this.#policy.observe?.(event));
  }

  forget(engineId: string): void {
    this.#tell('forget', () => this.#policy.forget?.(engineId));
  }

  #tell(what: string, tell: () => void): void {
    try {
      tell();
    } catch (cause) {
      this.#failed ??= this.#error(`${what}() threw ${cause}`, cause);
    }
  }

  #error(what: string, cause?: unknown): PolicyError {
    return new PolicyError(`the routing policy ${this.#name} of ${this.#file} failed: ${what}`, { cause });
  }
}

function candidateOf(side: TurnSide, id: string, candidates: Candidates): EngineView {
  const found = candidates[side].find(({ engineId }) => engineId === id);
  if (found) return found;
  const wanted = candidates[side].map(({ engineId }) => engineId).join(', ');
  throw new ConfigError(`route().${side} is ${id}, which is no candidate: wanted one of ${wanted}`);
}
