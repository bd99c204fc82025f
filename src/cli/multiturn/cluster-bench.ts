/** The benchmark on engines in this process, with its progress. */
import type { RunConfig } from '../../config/run.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { benchCluster, planBench } from '../../lab/multiturn/cluster-bench.ts';
import type { BenchReport } from '../../measure/bench-report.ts';
import type { LinkSpec } from '../../transport/link.ts';
import type { CommandContext } from '../deps.ts';
import { createProgress } from '../progress.ts';
import { preparePullPolicy } from '../pull-policy.ts';
import { turnRoutingLines } from '../routing-table.ts';
import { startCluster } from '../start-cluster.ts';
import { plainStyle } from '../table.ts';
import { checkCounts } from './settings.ts';
import { watchSession } from './watch.ts';
import { loadWorkload } from './workload.ts';

/** Throws KvferryError: what is wrong with the settings before any engine starts. */
export async function benchEngines(
  config: RunConfig,
  /** Several where ways of KV are compared. */
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
  const base = clusterOptions(config, architecture, adapter.software);
  const { options, plans } = planBench(config, workload, base, links);

  const pullPolicy = await preparePullPolicy(config, { deps, signal });
  const progress = createProgress(deps);
  const cluster = await startCluster(options, adapter.name, pullPolicy, progress, { deps, signal });
  if (config.explainRouting)
    cluster.onNotice((notice) => {
      if (notice.kind !== 'turn ended') return;
      for (const line of turnRoutingLines(notice.result, plainStyle)) progress.line(line);
    });
  try {
    const bench = { config, workload, plans, begunMs, signal };
    return await benchCluster(cluster, bench, deps, watchSession(progress, plans, deps.now));
  } finally {
    progress.end();
    await cluster.close();
  }
}
