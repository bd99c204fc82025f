/** What simulations of a command have in common besides who asks whom. */
import type { RunConfig } from '../../config/run.ts';
import type { SimulationWorld } from '../../simulate/run.ts';
import type { PlannedSimulation } from './plan.ts';

export function worldOf(
  config: RunConfig,
  planned: PlannedSimulation,
  signal: AbortSignal,
): Omit<SimulationWorld, 'onProgress'> {
  const { costs, groups, blockBytes, kvBytesPerToken, tokenIds } = planned;
  return {
    ...{ costs, groups, blockBytes, kvBytesPerToken, tokenIds, signal },
    sharing: config.linkSharing,
    check: config.invariants,
    runs: true,
    nextTask: () => new Promise<void>((resolve) => setImmediate(resolve)),
    seed: config.seed,
    seeds: config.seeds,
    slo: { ttftMs: config.sloTtft, tpotMs: config.sloTpot },
  };
}
