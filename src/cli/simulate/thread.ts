/** A thread that simulates, as the commands see it. */

import type { RunOutcome } from '../../simulate/outcome.ts';
import type { Trial, TrialRun } from '../../simulate/plan/trial.ts';

export interface SimulationJob {
  /** Its place among the arms. */
  arm: number;
  seed: number;
}

/** By the command whose jobs it takes: a job, and what comes of it. */
interface Work {
  simulate: { job: SimulationJob; result: RunOutcome };
  plan: { job: Trial; result: TrialRun };
}

export type ThreadWork = keyof Work;
export type ThreadJob<Of extends ThreadWork> = Work[Of]['job'];
export type ThreadResult<Of extends ThreadWork> = Work[Of]['result'];

export interface SimulationThread<Of extends ThreadWork> {
  /** One after the other. */
  run(job: ThreadJob<Of>): Promise<ThreadResult<Of>>;
  end(): Promise<void>;
}
