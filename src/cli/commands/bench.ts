/** `kvferry bench`: vLLM's multi-turn benchmark in every mode, round after round, and what pulling back gains and costs. */
import { clusterOptions } from '../../cluster/from-config.ts';
import type { ClusterOptions } from '../../cluster/types.ts';
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import type { BenchReport } from '../../measure/bench-report.ts';
import type { CommandSpec } from '../arguments.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { formatSeconds } from '../format.ts';
import { finalIntegrity } from '../integrity.ts';
import { ClusterTarget } from '../multiturn/cluster-target.ts';
import {
  type ExperimentPlan,
  planExperiments,
  sizeOf,
  UNSCALED_THRESHOLD,
} from '../multiturn/experiments.ts';
import { makeBenchReport } from '../multiturn/make-report.ts';
import { printBench } from '../multiturn/output.ts';
import type { ServeOptions } from '../multiturn/rounds.ts';
import { runSession } from '../multiturn/session.ts';
import { activeOf, benchDefaults, budgetMs, checkBench, checkCounts } from '../multiturn/settings.ts';
import { watchSession } from '../multiturn/watch.ts';
import { loadWorkload, type Workload } from '../multiturn/workload.ts';
import { createProgress } from '../progress.ts';

export const benchSpec: CommandSpec = {
  usage: 'bench [file]',
  description:
    "Run vLLM's multi-turn benchmark in each mode, in alternating rounds, and compare request by request: what pulling D's KV back gains, and what it costs.",
  groups: ['bench', 'measuring', 'modes', 'machine', 'cluster', 'sampling', 'endpoint', 'outputs', 'general'],
  argument: 'inputFile',
  defaults: benchDefaults,
  examples: [
    'kvferry bench --preset pr32553 --scale 1/16 --budget 10m',
    'kvferry bench generate_multi_turn.json --num-clients 2 --json bench.json',
    'kvferry bench --endpoint http://localhost:8000 --tokenizer tiny',
  ],
};

export async function bench(config: RunConfig, context: CommandContext): Promise<ExitCode> {
  checkBench(config);
  const { deps, signal } = context;
  const { backend } = deps;
  const begunMs = deps.now();
  const architecture = await backend.architecture(config.model);
  const text = await backend.tokenizer(config.model);
  const workload = await loadWorkload(config, deps, text, false);
  checkCounts(config, workload.conversations, workload.source);
  const adapter = await backend.useAdapter(config.adapter);
  const { options, plans } = plan(config, workload, clusterOptions(config, architecture, adapter.software));

  const progress = createProgress(deps);
  progress.line(`starting P and D with ${config.model} on ${adapter.name}`);
  const cluster = await backend.startCluster(options);
  let report: BenchReport;
  try {
    signal.throwIfAborted();
    progress.line(`ready in ${formatSeconds(cluster.info.startMs)}`);
    const target = new ClusterTarget(cluster, {
      maxTokens: config.maxTokens,
      temperature: config.temperature,
      topK: config.topK,
      topP: config.topP,
      seed: config.seed,
    });
    const budget = budgetMs(config);
    const session = await runSession(
      cluster,
      target,
      plans,
      workload.conversations,
      {
        ...serveOptions(config, context),
        rounds: config.rounds,
        deadlineMs: budget === null ? null : begunMs + budget,
        signal,
      },
      watchSession(progress, plans, deps.now),
    );
    const integrity = signal.aborted ? null : await finalIntegrity(cluster);
    report = makeBenchReport(deps, {
      config,
      cluster,
      workload,
      plans,
      session,
      spentMs: deps.now() - begunMs,
      notes: scaleNotes(config),
      integrity,
    });
  } finally {
    progress.end();
    await cluster.close();
  }
  printBench(report, config.json === true ? deps.stderr : deps.stdout, deps.color);
  await writeJson(report, config, context);
  if (signal.aborted) return EXIT.interrupted;
  const agree = Object.values(report.experiments).every(
    ({ comparison }) => comparison?.tokens_identical !== false,
  );
  const served = Object.values(report.experiments).some(({ modes }) => Object.keys(modes).length > 0);
  return agree && served && report.integrity?.ok ? EXIT.good : EXIT.failed;
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

export function serveOptions(config: RunConfig, { deps }: CommandContext): ServeOptions {
  return {
    numClients: config.numClients,
    maxActive: activeOf(config),
    maxRequests: config.maxNumRequests,
    maxTurns: config.maxTurns,
    requestRate: config.requestRate,
    pick: config.conversationSampling,
    warmupStep: config.warmupStep,
    earlyStop: config.earlyStop,
    limitTokens: { min: config.limitMinTokens, max: config.limitMaxTokens },
    seed: config.seed,
    now: deps.now,
    sleep: deps.sleep,
  };
}

function scaleNotes(config: RunConfig): string[] {
  if (config.scale === '1') return [];
  const unscaled = `vLLM's ${UNSCALED_THRESHOLD} unscaled is a row of its own`;
  return [
    `Every length is ${config.scale} of the workload's, and so is the threshold: ${config.threshold} tokens; ${unscaled}. Blocks stay at ${config.blockSize} tokens.`,
  ];
}

async function writeJson(report: BenchReport, config: RunConfig, { deps }: CommandContext): Promise<void> {
  if (config.json === false) return;
  const text = `${JSON.stringify(report, null, 2)}\n`;
  if (config.json === true) deps.stdout.write(text);
  else await deps.writeTextFile(config.json, text);
}
