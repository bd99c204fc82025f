/**
 * Every routing policy by its name (src/config/routing.ts), and the construction of policies and mixes from a user's
 * choice.
 */
import { didYouMean } from '../../config/fields.ts';
import { parseParameters } from '../../config/parameters.ts';
import { ROUTING_NAMES, type RoutingChoice, type RoutingName, routingParts } from '../../config/routing.ts';
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

/** Throws ConfigError for an unknown policy or parameter, and for an invalid value. */
export function makePolicy({ name, parameters }: RoutingChoice, deps: RoutingDeps): RoutingPolicy {
  for (const [policy, values] of Object.entries(parameters)) {
    const known = ROUTING_NAMES.find((each) => each === policy);
    // Parameters of policies that are not chosen are checked too.
    if (known) create(known, values, deps);
    else
      throw new ConfigError(
        `--routing-config has parameters for '${policy}', which is not a routing policy${didYouMean(policy, ROUTING_NAMES)}: wanted one of ${ROUTING_NAMES.join(', ')}`,
      );
  }
  const parts = routingParts(name).map((part) => {
    if (!POLICIES[part.name])
      throw new ConfigError(`there is no routing policy ${part.name}${didYouMean(part.name, ROUTING_NAMES)}`);
    return { ...part, policy: create(part.name, parameters[part.name] ?? {}, deps) };
  });
  return parts.length === 1 ? parts[0]!.policy : mixed(parts);
}

/** Checks a policy's parameters and fills in the defaults. Throws ConfigError. */
export function readParameters(name: RoutingName, given: unknown): Readonly<Record<string, unknown>> {
  const { parameters, translate = (unchanged) => unchanged } = POLICIES[name];
  return parseParameters(parameters, translate(given, name), inRoutingConfig(name));
}

const create = (name: RoutingName, given: unknown, deps: RoutingDeps): RoutingPolicy =>
  POLICIES[name].create(readParameters(name, given), deps);

/** What the chosen policies need engines to report. */
export function reportsNeeded({ name }: Pick<RoutingChoice, 'name'>): { load: boolean; cache: boolean } {
  const all = routingParts(name).flatMap((part) => POLICIES[part.name].needs);
  return { load: all.includes('load'), cache: all.includes('cache') };
}
