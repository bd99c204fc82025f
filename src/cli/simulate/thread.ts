/** A thread that simulates, as the commands see it. */
import type { RunOutcome } from '../../simulate/outcome.ts';

export interface SimulationJob {
  /** Its place among the arms. */
  arm: number;
  seed: number;
}

export interface SimulationThread {
  /** One after the other. */
  run(job: SimulationJob): Promise<RunOutcome>;
  end(): Promise<void>;
}
