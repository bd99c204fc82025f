/** The benchmark on engines in this process: checked, planned, served and reported. */

import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { finalIntegrity } from '../../lab/integrity.ts';
import { ClusterTarget } from '../../lab/multiturn/cluster-target.ts';
import {
  type ExperimentPlan,
  fitPools,
  planExperiments,
  sizeOf,
  UNSCALED_THRESHOLD,
} from '../../lab/multiturn/experiments.ts';
import { makeBenchReport } from '../../lab/multiturn/report.ts';
import { runSession } from '../../lab/multiturn/session.ts';
import { loadWorkload, type Workload } from '../../lab/multiturn/workload.ts';
import type { BenchReport } from '../../measure/bench-report.ts';
import { countsSince, spanCost } from '../../measure/span-cost.ts';
import type { CommandContext } from '../deps.ts';
import { createProgress } from '../progress.ts';
import { preparePullPolicy } from '../pull-policy.ts';
import { startCluster } from '../start-cluster.ts';
import { activeOf, budgetMs, checkCounts, serveOptions } from './settings.ts';
import { watchSession } from './watch.ts';

/** Throws KvferryError: what is wrong with the settings before any engine starts. */
export async function benchCluster(
  config: RunConfig,
  { deps, signal }: CommandContext,
): Promise<BenchReport> {
  const { backend } = deps;
  const begunMs = deps.now();
  const architecture = await backend.architecture(config.model);
  const text = await backend.tokenizer(config.model);
  const workload = await loadWorkload(config, deps, text, false);
  checkCounts(config, workload.conversations, workload.source);
  const adapter = await backend.useAdapter(config.adapter);
  const { options, plans } = plan(config, workload, clusterOptions(config, architecture, adapter.software));

  const pullPolicy = await preparePullPolicy(config, { deps, signal });
  const progress = createProgress(deps);
  const cluster = await startCluster(options, adapter.name, pullPolicy, progress, { deps, signal });
  try {
    const target = new ClusterTarget(cluster, {
      maxTokens: config.maxTokens,
      temperature: config.temperature,
      topK: config.topK,
      topP: config.topP,
      seed: config.seed,
    });
    const budget = budgetMs(config);
    const spansBefore = cluster.spanCounts();
    const servedFromMs = deps.now();
    const session = await runSession(
      cluster,
      target,
      plans,
      workload.conversations,
      {
        ...serveOptions(config, deps),
        rounds: config.rounds,
        deadlineMs: budget === null ? null : begunMs + budget,
        signal,
        fitPools: (some) =>
          fitPools(
            plans,
            sizeOf(some, activeOf(config), options.blockSize, config.maxTokens),
            config.numClients,
          ),
      },
      watchSession(progress, plans, deps.now),
    );
    const spans = countsSince(spansBefore, cluster.spanCounts());
    const recorder = await spanCost(spans, deps.now() - servedFromMs, deps.now);
    const integrity = signal.aborted ? null : await finalIntegrity(cluster);
    return makeBenchReport(deps, {
      config,
      cluster,
      workload,
      session,
      spentMs: deps.now() - begunMs,
      notes: scaleNotes(config),
      integrity,
      recorderShare: recorder.share,
    });
  } finally {
    progress.end();
    await cluster.close();
  }
}

/** Pools with room for all active conversations; the context must hold the longest. Throws ConfigError. */
function plan(
  config: RunConfig,
  workload: Workload,
  base: ClusterOptions,
): { options: ClusterOptions; plans: readonly ExperimentPlan[] } {
  const size = sizeOf(workload.conversations, activeOf(config), base.blockSize, config.maxTokens);
  if (size.longest > base.maxModelLen) {
    throw new ConfigError(
      `the longest conversation has ${size.longest} tokens and the context holds ${base.maxModelLen}: raise --max-model-len, take another --model, or shrink the workload with --scale 1/N`,
    );
  }
  const plans = planExperiments(config, size, scaleDivisor(config.scale)!);
  const most = (blocks: (each: ExperimentPlan) => number): number => Math.max(...plans.map(blocks));
  const options = {
    ...base,
    mode: plans[0]!.arms[0]!.mode,
    prefill: { ...base.prefill, numBlocks: most(({ pBlocks }) => pBlocks) },
    decode: { ...base.decode, numBlocks: most(({ dBlocks }) => dBlocks) },
  };
  return { options, plans };
}

function scaleNotes(config: RunConfig): string[] {
  if (config.scale === '1') return [];
  const threshold =
    config.pullPolicy === 'cost-aware'
      ? ''
      : `, and so is the threshold: ${config.threshold} tokens; vLLM's ${UNSCALED_THRESHOLD} unscaled is a row of its own`;
  return [
    `Every length is ${config.scale} of the workload's${threshold}. Blocks stay at ${config.blockSize} tokens.`,
  ];
}
