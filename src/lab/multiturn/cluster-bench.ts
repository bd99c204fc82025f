/** The benchmark on engines in this process: planned before they start, then served and reported. */
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { cacheGroups } from '../../engine/kv-cache-spec.ts';
import { ConfigError } from '../../errors.ts';
import { hasWindows } from '../../fleet/options.ts';
import type { Cluster, ClusterOptions } from '../../fleet/types.ts';
import { plural } from '../../measure/format.ts';
import type { BenchReport, Experiment } from '../../measure/schemas/bench-report.ts';
import { countsSince, spanCost } from '../../measure/summaries/span-cost.ts';
import type { LinkSpec } from '../../transport/link.ts';
import { finalIntegrity } from '../integrity.ts';
import type { ReportSource } from '../run-report.ts';
import { ClusterTarget, servedBy } from './cluster-target.ts';
import {
  type ExperimentPlan,
  fitPools,
  planExperiments,
  scaledThreshold,
  sizeOf,
  UNSCALED_THRESHOLD,
} from './experiments.ts';
import { pathChoice } from './paths.ts';
import { makeBenchReport, persistenceNotes, reportedWorkload, type Workload } from './report.ts';
import type { ServeOptions } from './rounds.ts';
import { runSession, type SessionWatcher } from './session.ts';
import { activeOf, asServed, budgetMs, serveOptions } from './settings.ts';
import { summariseExperiment, unansweredArm } from './summary.ts';

/**
 * Plans the experiments, with pools for all active conversations unless configured or evicting. Throws ConfigError, also if the
 * longest conversation exceeds the model's context.
 */
export function planBench(
  config: RunConfig,
  workload: Workload,
  base: ClusterOptions,
  /** Links to compare, for a comparison of KV paths. */
  links: readonly (LinkSpec | null)[] = [base.link],
): { options: ClusterOptions; plans: readonly ExperimentPlan[] } {
  const served = asServed(workload.conversations, config);
  const size = sizeOf(served, activeOf(config), base.blockSize, config.maxTokens, cacheGroups(base).length);
  if (size.longest > base.maxModelLen) {
    throw new ConfigError(
      `the longest conversation has ${size.longest} tokens and the model's context is ${base.maxModelLen}: raise --max-model-len, use another --model, or shrink the workload with --scale 1/N`,
    );
  }
  const plans = planExperiments(config, size, scaleDivisor(config.scale)!, hasWindows(base), links);
  const most = (blocks: (each: ExperimentPlan) => number): number => Math.max(...plans.map(blocks));
  const options = {
    ...base,
    mode: plans[0]!.arms[0]!.mode,
    // Each arm sets its own connectors; requests between arms need none of them.
    ...(config.paths === null
      ? {}
      : { connector: { ...base.connector, ...pathChoice('recompute', config).connector } }),
    prefill: { ...base.prefill, numBlocks: most(({ pBlocks }) => pBlocks) },
    decode: { ...base.decode, numBlocks: most(({ dBlocks }) => dBlocks) },
  };
  return { options, plans };
}

export interface ClusterBench {
  config: RunConfig;
  workload: Workload;
  plans: readonly ExperimentPlan[];
  /** When the benchmark began, by `now`. */
  begunMs: number;
  signal: AbortSignal;
}

/** Needs a cluster that was started for the plans. When the signal aborts, the report has what was served. */
export async function benchCluster(
  cluster: Cluster,
  { config, workload, plans, begunMs, signal }: ClusterBench,
  world: ReportSource & Pick<ServeOptions, 'now' | 'sleep'>,
  watcher: SessionWatcher,
): Promise<BenchReport> {
  const { now } = world;
  const { maxTokens, temperature, topK, topP, seed } = config;
  const target = new ClusterTarget(cluster, { maxTokens, temperature, topK, topP, seed });
  const budget = budgetMs(config);
  const { blockSize } = cluster.settings;
  const groups = cacheGroups(cluster.settings).length;
  const spansBefore = cluster.spanCounts();
  const servedFromMs = now();
  const session = await runSession(
    cluster,
    target,
    plans,
    workload.conversations,
    {
      ...serveOptions(config, world),
      rounds: config.rounds,
      deadlineMs: budget === null ? null : begunMs + budget,
      signal,
      asServed: (some) => asServed(some, config),
      fitPools: (some) =>
        fitPools(
          plans,
          sizeOf(asServed(some, config), activeOf(config), blockSize, maxTokens, groups),
          config.numClients,
        ),
    },
    watcher,
  );
  const spans = countsSince(spansBefore, cluster.spanCounts());
  const recorder = await spanCost(spans, now() - servedFromMs, now);
  const integrity = signal.aborted ? null : await finalIntegrity(cluster);
  const { adapter, model, link } = cluster.info;
  const experiments = session.experiments.map((plan): [string, Experiment] => [
    plan.key,
    summariseExperiment(plan, session.rounds, config, model.blockBytes, cluster.info.engines),
  ]);
  return makeBenchReport(world, config, {
    adapter,
    target: servedBy(model, config.paths === null ? link : null),
    workload: reportedWorkload(workload, session.conversations, config),
    plan: {
      budget_ms: budget,
      spent_ms: now() - begunMs,
      rounds: Math.min(...[...session.rounds.values()].map((list) => list.length)),
      notes: [...scaleNotes(config), ...persistenceNotes(config, plans), ...session.notes],
    },
    experiments: Object.fromEntries(experiments),
    incompleteReason: session.incompleteReason ?? unansweredArm(session.experiments, session.rounds),
    integrity,
    recorderShare: recorder.share,
  });
}

/** The note about the threshold, if a threshold decides. */
function thresholdNote({ pullPolicy, threshold, scale, routing, paths, mode }: RunConfig): string {
  if (pullPolicy === 'cost-aware') return '';
  if (threshold !== scaledThreshold(scaleDivisor(scale)!))
    return `, but the threshold is not scaled: ${plural(threshold, 'token')}, as given`;
  const withUnscaled = routing.length === 1 && paths === null && mode.includes('bidirectional');
  return `, and so is the threshold: ${plural(threshold, 'token')}${withUnscaled ? `; vLLM's unscaled ${UNSCALED_THRESHOLD} has a row of its own` : ''}`;
}

function scaleNotes(config: RunConfig): string[] {
  if (config.scale === '1') return [];
  return [
    `Every length is ${config.scale} of the workload's${thresholdNote(config)}. Blocks stay at ${config.blockSize} tokens.`,
  ];
}
