/** Runs a plan's simulations: one after another in this thread, or in parallel threads. */
import { shareOf } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { formatCount, plural } from '../../measure/format.ts';
import type { SimulationCosts } from '../../simulate/costs/types.ts';
import type { Slo, Trial } from '../../simulate/plan/outcome.ts';
import { simulateTrial, Trials, type TrialsDeps, type TrialWorld } from '../../simulate/plan/trial.ts';
import type { SimulationWorld } from '../../simulate/run.ts';
import type { CliDeps } from '../deps.ts';
import type { Progress } from '../output/progress.ts';
import { readCosts } from '../simulate/plan.ts';
import { withThreads } from '../simulate/with-threads.ts';
import { worldOf } from '../simulate/world.ts';
import type { Given } from '../trace/open.ts';
import { type PlanWorkload, planWorkload } from './workload.ts';

/** Everything a plan's trials need. Prepared from the settings alone, identically in every thread. */
export interface PreparedPlan {
  costs: SimulationCosts;
  workload: PlanWorkload;
  world: (signal: AbortSignal, onProgress: SimulationWorld['onProgress']) => TrialWorld;
}

/** Throws ConfigError. */
export async function preparePlan(config: RunConfig, deps: CliDeps, given: Given): Promise<PreparedPlan> {
  const costs = await readCosts(config, deps);
  const architecture = await deps.backend.architecture(config.model);
  const workload = await planWorkload(config, costs, architecture, deps, given);
  const { planned, load } = workload;
  return {
    costs,
    workload,
    world: (signal, onProgress) => ({
      ...{ base: planned.options, load, slo: sloOf(config), longest: longestOf(workload) },
      simulation: { ...worldOf(config, planned, signal), onProgress },
    }),
  };
}

/** Requests by which the last candidates are compared. */
export const longestOf = ({ sample, load }: PlanWorkload): number => Math.min(sample, load.requests);

const sloOf = ({ sloTtft: ttftMs, sloTpot: tpotMs, attainment }: RunConfig): Slo => ({
  ...{ ttftMs, tpotMs },
  attainment: shareOf(attainment),
});

/** Runs work with trials; ends the threads afterwards, also after an error. */
export async function withTrials<T>(
  config: RunConfig,
  prepared: PreparedPlan,
  { signal, deps, progress }: { signal: AbortSignal; deps: CliDeps; progress: Progress },
  work: (trials: Trials) => Promise<T>,
): Promise<T> {
  let about = '';
  const trialsWith = (how: Pick<TrialsDeps, 'simulate' | 'atOnce'>): Trials => {
    const trials: Trials = new Trials({
      ...how,
      slo: sloOf(config),
      onTrial({ candidate, sample }) {
        about = `${plural(trials.count, 'simulation')}; now ${candidate.prefill} P + ${candidate.decode} D, ${candidate.routing.name}, ${plural(sample, 'request')}`;
        progress.update(trials.count, about);
      },
    });
    return trials;
  };
  const jobs = config.jobs ?? deps.machine().cores;
  if (jobs === 1) {
    const world = prepared.world(signal, (done) =>
      progress.update(trials.count, `${about}, ${formatCount(done)} done`),
    );
    const trials = trialsWith({ simulate: (trial) => simulateTrial(trial, world), atOnce: 1 });
    return work(trials);
  }
  return withThreads({ of: 'plan', count: jobs, config }, { deps, signal }, (threads) => {
    const idle = [...threads];
    const simulate = async (trial: Trial) => {
      const thread = idle.pop()!;
      const run = await thread.run(trial);
      idle.push(thread);
      return run;
    };
    return work(trialsWith({ simulate, atOnce: jobs }));
  });
}
