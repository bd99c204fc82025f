/** Runs the simulations of all arms and seeds: one after another in this thread, or in parallel threads. */
import type { RunConfig } from '../../config/run.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import type { RunOutcome } from '../../simulate/results/outcome.ts';
import { simulateSeed } from '../../simulate/run.ts';
import type { CliDeps } from '../deps.ts';
import type { Progress } from '../output/progress.ts';
import type { PreparedSimulation } from './prepared.ts';
import type { SimulationJob, SimulationThread } from './thread.ts';
import { withThreads } from './with-threads.ts';

/** Outcomes by arm, then by seed. They do not depend on the number of jobs. */
export async function runJobs(
  config: RunConfig,
  prepared: PreparedSimulation,
  signal: AbortSignal,
  deps: CliDeps,
  progress: Progress,
): Promise<RunOutcome[][]> {
  const { arms } = prepared.planned;
  const { seed: first, seeds } = config;
  const jobs = config.jobs ?? 1;
  const all = arms.flatMap((_, arm) => Array.from({ length: seeds }, (_, i) => ({ arm, seed: first + i })));
  const outcomes = arms.map((): RunOutcome[] => []);
  const keep = ({ arm, seed }: SimulationJob, outcome: RunOutcome): void => {
    outcomes[arm]![seed - first] = outcome;
  };
  if (jobs === 1) {
    for (const job of all) {
      const { label } = arms[job.arm]!;
      progress.begin(seeds > 1 ? `${label}, seed ${job.seed}` : label, prepared.workload.turns);
      const world = prepared.world(signal, (done, ms) => progress.update(done, formatSeconds(ms)));
      const simulated = simulateSeed(arms[job.arm]!, world, job.seed);
      keep(job, await simulated.finally(() => progress.end()));
    }
    return outcomes;
  }
  const waiting = [...all];
  const count = Math.min(jobs, all.length);
  progress.begin(`${plural(all.length, 'simulation')}, ${count} in parallel`, all.length);
  let done = 0;
  const run = async (thread: SimulationThread<'simulate'>): Promise<void> => {
    for (let job = waiting.shift(); job; job = waiting.shift()) {
      keep(job, await thread.run(job));
      progress.update(++done, '');
    }
  };
  try {
    await withThreads({ of: 'simulate', count, config }, { deps, signal }, (threads) =>
      Promise.all(threads.map(run)),
    );
  } finally {
    progress.end();
  }
  return outcomes;
}
