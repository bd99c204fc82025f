/**
 * Every routing policy by its name (src/config/routing.ts), and the construction of policies and mixes from a user's
 * choice.
 */
import { didYouMean } from '../../config/fields.ts';
import { parseParameters } from '../../config/parameters.ts';
import {
  addRoutingName,
  type RoutingChoice,
  type RoutingName,
  routingNames,
  routingParts,
} from '../../config/routing.ts';
import { ConfigError } from '../../errors.ts';
import type { RoutingPolicy } from '../plan.ts';
import { aibrixPd } from './aibrix-pd/aibrix-pd.ts';
import { inRoutingConfig, type PolicyDefinition, type RoutingDeps } from './definition.ts';
import { dynamo } from './dynamo.ts';
import { leastRequest } from './least-request.ts';
import { leastTtft } from './least-ttft.ts';
import { llmD } from './llm-d/llm-d.ts';
import { mixed } from './mix.ts';
import { mooncake } from './mooncake.ts';
import { powerOfTwo } from './power-of-two.ts';
import { prefixCache } from './prefix-cache.ts';
import { random } from './random.ts';
import { roundRobin } from './round-robin.ts';
import { sessionAffinity } from './session-affinity.ts';
import { sglang } from './sglang/sglang.ts';

export const POLICIES: Readonly<Record<RoutingName, PolicyDefinition>> = {
  'round-robin': roundRobin,
  random,
  'power-of-two': powerOfTwo,
  'least-request': leastRequest,
  'session-affinity': sessionAffinity,
  'prefix-cache': prefixCache,
  'aibrix-pd': aibrixPd,
  'llm-d': llmD,
  dynamo,
  sglang,
  mooncake,
  'least-ttft': leastTtft,
};

/** Policies of the user's own. */
const own = new Map<string, PolicyDefinition>();

/** From now on the name can be chosen in this process; a policy that was added under it before is replaced. */
export function addPolicy(name: string, definition: PolicyDefinition): void {
  own.set(name, definition);
  addRoutingName(name);
}

const definitionOf = (name: string): PolicyDefinition | undefined =>
  Object.hasOwn(POLICIES, name) ? POLICIES[name as RoutingName] : own.get(name);

/** Throws ConfigError for an unknown policy or parameter, and for an invalid value. */
export function makePolicy({ name, parameters }: RoutingChoice, deps: RoutingDeps): RoutingPolicy {
  for (const [policy, values] of Object.entries(parameters)) {
    // Parameters of policies that are not chosen are checked too.
    if (definitionOf(policy)) create(policy, values, deps);
    else
      throw new ConfigError(
        `--routing-config has parameters for '${policy}', which is not a routing policy${didYouMean(policy, routingNames())}: wanted one of ${routingNames().join(', ')}`,
      );
  }
  const parts = routingParts(name).map((part) => {
    if (!definitionOf(part.name))
      throw new ConfigError(
        `there is no routing policy ${part.name}${didYouMean(part.name, routingNames())}`,
      );
    return { ...part, policy: create(part.name, parameters[part.name] ?? {}, deps) };
  });
  return parts.length === 1 ? parts[0]!.policy : mixed(parts);
}

/** Checks a policy's parameters and fills in the defaults. Throws ConfigError. */
export function readParameters(name: string, given: unknown): Readonly<Record<string, unknown>> {
  const { parameters, translate = (unchanged) => unchanged } = definitionOf(name)!;
  return parseParameters(parameters, translate(given, name), inRoutingConfig(name));
}

const create = (name: string, given: unknown, deps: RoutingDeps): RoutingPolicy =>
  definitionOf(name)!.create(readParameters(name, given), deps);

/** What the chosen policies need engines to report. */
export function reportsNeeded({ name }: Pick<RoutingChoice, 'name'>): { load: boolean; cache: boolean } {
  const all = routingParts(name).flatMap((part) => definitionOf(part.name)!.needs);
  return { load: all.includes('load'), cache: all.includes('cache') };
}
