/** From a session to the benchmark's report. */

import type { CliDeps } from '../../cli/deps.ts';
import { activeOf, budgetMs } from '../../cli/multiturn/settings.ts';
import { type RunConfig, reportedSettings } from '../../config/run.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { BenchMode, BenchReport, Experiment } from '../../measure/bench-report.ts';
import type { Integrity } from '../../measure/report.ts';
import { makeHead } from '../run-report.ts';
import type { SessionResult } from './session.ts';
import { summariseExperiment } from './summary.ts';
import type { Workload } from './workload.ts';

export interface ReportParts {
  config: RunConfig;
  cluster: Cluster;
  workload: Workload;
  session: SessionResult;
  spentMs: number;
  notes: readonly string[];
  integrity: Integrity | null;
  /** Of the time: what recording spans cost. */
  recorderShare: number;
}

export function makeBenchReport(
  deps: Pick<CliDeps, 'version' | 'today' | 'machine'>,
  { config, cluster, workload, session, spentMs, notes, integrity, recorderShare }: ReportParts,
): BenchReport {
  const { model, link } = cluster.info;
  const experiments = Object.fromEntries(
    session.experiments.map((plan): [string, Experiment] => [
      plan.key,
      summariseExperiment(plan, session.rounds, config, model.blockBytes),
    ]),
  );
  return {
    ...makeHead('bench', deps, cluster),
    complete: session.complete,
    incomplete_reason: session.incompleteReason,
    target: {
      kind: 'cluster',
      url: null,
      model: model.name,
      block_bytes: model.blockBytes,
      kv_bytes_per_token: model.kvBytesPerToken,
      parameters: model.parameters,
      link: link?.name ?? null,
    },
    config: { ...reportedSettings(config) },
    ...workloadAndPlan(config, workload, session, spentMs, notes),
    recorder_overhead_percent: 100 * recorderShare,
    experiments,
    ...mainExperiment(experiments),
    integrity,
  };
}

export function workloadAndPlan(
  config: RunConfig,
  workload: Workload,
  session: Pick<SessionResult, 'conversations' | 'notes' | 'rounds'>,
  spentMs: number,
  notes: readonly string[],
): Pick<BenchReport, 'workload' | 'plan'> {
  const turns = session.conversations.flatMap((conversation) => conversation.turns);
  const rounds = [...session.rounds.values()].map((list) => list.length);
  return {
    workload: {
      source: workload.source,
      scale: workload.scale,
      seed: config.seed,
      num_clients: config.numClients,
      max_active_conversations: Math.min(activeOf(config), session.conversations.length),
      conversations: session.conversations.length,
      requests: turns.length,
      prompt_tokens: promptTokens(session.conversations),
      output_tokens: turns.reduce((sum, turn) => sum + (turn.outputTokens ?? 0), 0),
      generation: { ...workload.generation },
    },
    plan: {
      budget_ms: budgetMs(config),
      spent_ms: spentMs,
      rounds: rounds.length > 0 ? Math.min(...rounds) : 0,
      notes: [...notes, ...session.notes],
    },
  };
}

/** Histories included. */
function promptTokens(conversations: SessionResult['conversations']): number {
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

export function mainExperiment(
  experiments: Readonly<Record<string, Experiment>>,
): Pick<BenchReport, 'modes' | 'comparison'> {
  const [main] = Object.values(experiments);
  const modes = Object.entries(main?.modes ?? {}).map(
    ([key, { samples: _, ...rest }]): [string, Omit<BenchMode, 'samples'>] => [key, rest],
  );
  return { modes: Object.fromEntries(modes), comparison: main?.comparison ?? null };
}
