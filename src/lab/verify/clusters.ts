/** Runs conversations in several modes on a separate cluster, for the checks. */
import type { Mode } from '../../config/modes.ts';
import type { RunConfig } from '../../config/run.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import type { Comparison, RunReport } from '../../measure/schemas/report.ts';
import { compareRuns, LogitKeeper } from '../../measure/summaries/comparison.ts';
import { type ConversationSizes, makeConversations } from '../../workload/random-conversations.ts';
import { driveMode } from '../drive.ts';
import type { CheckEnvironment } from './types.ts';

/** A model with sliding windows of 128 tokens, for checks of windows if the user's model has none. */
export const HYBRID = 'tiny-hybrid';

export interface Trial {
  /** Overrides of the user's configuration. */
  settings: Partial<RunConfig>;
  sizes: ConversationSizes;
  seed: number;
  temperature: number;
  concurrency: number;
  modes: readonly Mode[];
  options: Partial<Pick<ClusterOptions, 'checksum' | 'poison' | 'fault'>>;
}

export interface TrialResult {
  runs: readonly RunReport[];
  comparison: Comparison;
}

/** Checks integrity after every mode, and always closes the cluster. Throws what the cluster throws. */
export async function runTrial(
  { config, backend, software }: CheckEnvironment,
  trial: Trial,
  say: (what: string) => void,
  signal: AbortSignal,
): Promise<TrialResult> {
  const settings = { ...config, ...trial.settings };
  const architecture = await backend.architecture(settings.model);
  const conversations = makeConversations(trial.sizes, architecture.vocabSize, trial.seed);
  signal.throwIfAborted();
  say('starting engines');
  const cluster = await backend.startCluster({
    ...clusterOptions(settings, architecture, software),
    keepLogits: true,
    ...trial.options,
  });
  try {
    const keeper = new LogitKeeper();
    const runs: RunReport[] = [];
    for (const mode of trial.modes) {
      say(mode);
      runs.push(
        await driveMode(cluster, mode, conversations, {
          sampling: { temperature: trial.temperature, seed: trial.seed },
          concurrency: trial.concurrency,
          signal,
          now: () => 0,
          keeper,
          onToken: () => {},
          onTurn: () => {},
        }),
      );
      await cluster.checkIntegrity();
    }
    return { runs, comparison: compareRuns(runs, keeper.maxDifference)! };
  } finally {
    await cluster.close();
  }
}
