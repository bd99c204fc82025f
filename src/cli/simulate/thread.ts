/** Interface of a simulation thread. */

import type { Trial } from '../../simulate/plan/outcome.ts';
import type { TrialRun } from '../../simulate/plan/trial.ts';
import type { RunOutcome } from '../../simulate/results/outcome.ts';

export interface SimulationJob {
  /** Index of the arm. */
  arm: number;
  seed: number;
}

/** Job and result types, by command. */
interface Work {
  simulate: { job: SimulationJob; result: RunOutcome };
  plan: { job: Trial; result: TrialRun };
}

export type ThreadWork = keyof Work;
export type ThreadJob<Of extends ThreadWork> = Work[Of]['job'];
export type ThreadResult<Of extends ThreadWork> = Work[Of]['result'];

export interface SimulationThread<Of extends ThreadWork> {
  /** One job at a time. */
  run(job: ThreadJob<Of>): Promise<ThreadResult<Of>>;
  end(): Promise<void>;
}
