/** Builds a benchmark's report from what was served, by engines or a server. */
import { type RunConfig, reportedSettings } from '../../config/run.ts';
import { keepsKv, keptBy } from '../../config/store.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { BenchMode } from '../../measure/schemas/bench-mode-schema.ts';
import type { BenchReport, Experiment } from '../../measure/schemas/bench-report.ts';
import { sumOf } from '../../sum.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { makeHead, type ReportSource } from '../run-report.ts';
import { requestsOf } from './clients.ts';
import type { ExperimentPlan } from './experiments.ts';
import { activeOf, asServed } from './settings.ts';

/** The conversations of a benchmark and their source. */
export interface Workload {
  source: string;
  scale: string;
  conversations: readonly BenchConversation[];
  /** vLLM's generation parameters; empty if the conversations were given. */
  generation: Readonly<Record<string, string>>;
}

export interface ServedBench {
  adapter: Pick<Cluster['info']['adapter'], keyof BenchReport['adapter']>;
  target: BenchReport['target'];
  workload: BenchReport['workload'];
  plan: BenchReport['plan'];
  experiments: BenchReport['experiments'];
  /** null: all was served. */
  incompleteReason: string | null;
  integrity: BenchReport['integrity'];
  /** Recording of spans, as a share of the time; null: none were recorded. */
  recorderShare: number | null;
}

export function makeBenchReport(source: ReportSource, config: RunConfig, served: ServedBench): BenchReport {
  const { experiments, incompleteReason, recorderShare } = served;
  return {
    ...makeHead('bench', source, served.adapter),
    complete: incompleteReason === null,
    incomplete_reason: incompleteReason,
    target: served.target,
    config: { ...reportedSettings(config) },
    workload: served.workload,
    plan: served.plan,
    recorder_overhead_percent: recorderShare === null ? null : 100 * recorderShare,
    experiments,
    ...mainExperiment(experiments),
    integrity: served.integrity,
  };
}

/** The workload as reported. `conversations`: those that were served in all rounds. */
export function reportedWorkload(
  { source, scale, generation }: Workload,
  conversations: readonly BenchConversation[],
  config: RunConfig,
): BenchReport['workload'] {
  const inputs = asServed(conversations, config);
  const turns = inputs.flatMap((conversation) => conversation.turns);
  return {
    ...{ source, scale, seed: config.seed, num_clients: config.numClients },
    max_active_conversations: Math.min(activeOf(config), conversations.length),
    conversations: conversations.length,
    requests: requestsOf(conversations, { ...config, maxRequests: config.maxNumRequests }),
    prompt_tokens: promptTokens(inputs),
    output_tokens: sumOf(turns, (turn) => turn.outputTokens ?? 0),
    generation: { ...generation },
  };
}

/** Prompt tokens of all turns, histories included. */
function promptTokens(conversations: readonly BenchConversation[]): number {
  let sum = 0;
  for (const { turns } of conversations) {
    let history = 0;
    for (const turn of turns) {
      sum += history + turn.inputTokens;
      history += turn.inputTokens + (turn.outputTokens ?? 0);
    }
  }
  return sum;
}

function mainExperiment(
  experiments: Readonly<Record<string, Experiment>>,
): Pick<BenchReport, 'modes' | 'comparison'> {
  const [main] = Object.values(experiments);
  const modes = Object.entries(main?.modes ?? {}).map(
    ([key, { samples: _, ...rest }]): [string, Omit<BenchMode, 'samples'>] => [key, rest],
  );
  return { modes: Object.fromEntries(modes), comparison: main?.comparison ?? null };
}

/** The note about tiers below a store's memory: unlike the memory, they are not emptied between rounds. */
export function persistenceNotes(config: RunConfig, plans: readonly ExperimentPlan[]): string[] {
  if (!keepsKv(config)) return [];
  const several = plans.some(({ arms }) => arms.length > 1);
  return [
    `${keptBy(config)} keeps KV from the warm-up and from one ${several ? 'mode and ' : ''}round to the next. Later ones load what earlier ones saved, so ${several ? "the modes' times cannot be compared" : 'not all times are from an empty store'}.`,
  ];
}
