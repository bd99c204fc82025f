/** Runs the benchmark on engines in this process, with progress. */

import type { CostProfile } from '../../config/cost-profile.ts';
import type { RunConfig } from '../../config/run.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import type { Cluster } from '../../fleet/types.ts';
import { benchCluster, planBench } from '../../lab/multiturn/cluster-bench.ts';
import type { ExperimentPlan } from '../../lab/multiturn/experiments.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import type { LinkSpec } from '../../transport/link.ts';
import type { CommandContext } from '../deps.ts';
import { type PullPolicySetting, preparePullPolicy } from '../options/pull-policy.ts';
import { createProgress, type Progress } from '../output/progress.ts';
import { failedTurnRoutingLines, turnOf, turnRoutingLines } from '../output/routing-table.ts';
import { plainStyle } from '../output/table.ts';
import { startCluster } from '../start-cluster.ts';
import { checkCounts } from './settings.ts';
import { watchSession } from './watch.ts';
import { loadWorkload } from './workload.ts';

/** Throws KvferryError; for wrong settings, before any engine starts. */
export async function benchEngines(
  config: RunConfig,
  /** Several only if KV paths are compared. */
  links: readonly (LinkSpec | null)[],
  { deps, signal }: CommandContext,
): Promise<BenchReport> {
  const { backend } = deps;
  const begunMs = deps.now();
  const architecture = await backend.architecture(config.model);
  const text = await backend.tokenizer(config.model);
  const workload = await loadWorkload(config, deps, text, false);
  checkCounts(config, workload.conversations, workload.source);
  const adapter = await backend.useAdapter(config.adapter);
  const base = forMeasuring(clusterOptions(config, architecture, adapter.software));
  const { options, plans } = planBench(config, workload, base, links);

  const pullPolicy = await preparePullPolicy(config, { deps, signal });
  const progress = createProgress(deps);
  const priced = config.paths?.includes('cost-aware') ?? false;
  const atStart = priced ? { apply: async () => null } : pullPolicy;
  const cluster = await startCluster(options, adapter.name, atStart, progress, { deps, signal });
  if (config.explainRouting)
    cluster.onNotice((notice) => {
      if (notice.kind === 'turn ended')
        for (const line of turnRoutingLines(turnOf(notice.result), plainStyle)) progress.line(line);
      else if (notice.kind === 'turn failed')
        for (const line of failedTurnRoutingLines(notice, plainStyle)) progress.line(line);
    });
  try {
    const served = priced ? await withCosts(plans, cluster, pullPolicy, progress) : plans;
    const bench = { config, workload, plans: served, begunMs, signal };
    return await benchCluster(cluster, bench, deps, watchSession(progress, plans, deps.now));
  } finally {
    progress.end();
    await cluster.close();
  }
}

/** Adds a cost profile per link, because costs depend on the link. */
async function withCosts(
  plans: readonly ExperimentPlan[],
  cluster: Cluster,
  { apply }: PullPolicySetting,
  progress: Progress,
): Promise<readonly ExperimentPlan[]> {
  const profiles = new Map<string | null, CostProfile | null>();
  const nameOf = ({ link }: ExperimentPlan): string | null => link?.name ?? null;
  for (const plan of plans) {
    if (profiles.has(nameOf(plan))) continue;
    await cluster.configure({ link: plan.link ?? null });
    profiles.set(nameOf(plan), await apply(cluster, progress));
  }
  return plans.map((plan) => ({
    ...plan,
    arms: plan.arms.map((arm) =>
      arm.path?.name === 'cost-aware'
        ? { ...arm, path: { ...arm.path, costProfile: profiles.get(nameOf(plan)) ?? null } }
        : arm,
    ),
  }));
}
