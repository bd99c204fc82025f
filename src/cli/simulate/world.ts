/** The settings that all simulations of a command share. */
import type { RunConfig } from '../../config/run.ts';
import type { SimulationWorld } from '../../simulate/run.ts';
import type { PlannedSimulation } from './plan.ts';
import { promisesRun } from './promises-run.ts';

export function worldOf(
  config: RunConfig,
  planned: PlannedSimulation,
  signal: AbortSignal,
): Omit<SimulationWorld, 'onProgress'> {
  const { costs, groups, blockBytes, tokenIds } = planned;
  return {
    ...{ costs, groups, blockBytes, tokenIds, signal },
    sharing: config.linkSharing,
    check: config.check,
    runs: true,
    nextTask: promisesRun,
    seed: config.seed,
    seeds: config.seeds,
    slo: { ttftMs: config.sloTtft, tpotMs: config.sloTpot },
  };
}
