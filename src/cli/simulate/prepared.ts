/** Prepares a simulation from the settings alone, identically in every thread. */
import type { RunConfig } from '../../config/run.ts';
import { autoscaleChoice } from '../../fleet/autoscale-choice.ts';
import { requestsOf } from '../../lab/multiturn/clients.ts';
import type { Architecture } from '../../model/types.ts';
import type { SimulationCosts } from '../../simulate/costs/types.ts';
import type { SimulationWorld } from '../../simulate/run.ts';
import { sumOf } from '../../sum.ts';
import type { BenchConversation } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';
import { checkCounts } from '../multiturn/settings.ts';
import { loadWorkload } from '../multiturn/workload.ts';
import type { Given } from '../trace/open.ts';
import { planSimulation, readCosts } from './plan.ts';
import { withPullCosts } from './pull-costs.ts';
import { planTrace, type SimulatedTrace } from './trace.ts';
import { worldOf } from './world.ts';

export interface PreparedSimulation extends SimulatedTrace {
  world: (signal: AbortSignal, onProgress: SimulationWorld['onProgress']) => SimulationWorld;
}

/** `given`: as for openNamedTrace. `adapter`: the adapter of the real engines; null: none. Throws ConfigError. */
export async function prepareSimulation(
  config: RunConfig,
  deps: CliDeps,
  given: Given,
  adapter: { software: boolean } | null = null,
): Promise<PreparedSimulation> {
  const costs = await readCosts(config, deps);
  const architecture = await deps.backend.architecture(config.model);
  const { planned: plain, workload } =
    config.trace === null
      ? await planWorkload(config, costs, architecture, adapter, deps)
      : await planTrace(config, costs, architecture, deps, given);
  const planned = await withPullCosts(config, plain, deps);
  const faultPlan = config.faults === null ? null : { faults: config.faults, span: workload.turns };
  const autoscale = autoscaleChoice(config);
  return {
    planned,
    workload,
    world: (signal, onProgress) => ({
      ...worldOf(config, planned, signal),
      ...{ faultPlan, autoscale, onProgress },
    }),
  };
}

async function planWorkload(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  adapter: { software: boolean } | null,
  deps: CliDeps,
): Promise<SimulatedTrace> {
  const vocabulary = await deps.backend.tokenizer(config.model);
  const workload = await loadWorkload(config, deps, vocabulary, false);
  const { source, scale, conversations } = workload;
  if (config.arrivalRate === null) checkCounts(config, conversations, source);
  const planned = planSimulation(config, costs, workload, vocabulary, architecture, adapter);
  return {
    planned,
    workload: {
      source,
      scale,
      conversations: conversations.length,
      turns: turnsAsked(config, conversations),
    },
  };
}

/** Turns of the whole load. Open-loop conversations may repeat, and clients may send fewer. */
function turnsAsked(
  { arrivalRate, arrivals, ...clients }: RunConfig,
  conversations: readonly BenchConversation[],
): number {
  if (arrivalRate === null)
    return requestsOf(conversations, { ...clients, maxRequests: clients.maxNumRequests });
  const turns = (some: readonly BenchConversation[]): number =>
    sumOf(some, (conversation) => conversation.turns.length);
  const count = arrivals ?? conversations.length;
  const rest = count % conversations.length;
  return ((count - rest) / conversations.length) * turns(conversations) + turns(conversations.slice(0, rest));
}
