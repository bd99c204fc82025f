/** The start of a command that serves: its engines, told about as they come up, with the policy in force that was asked for. */
import { leastMemory } from '../fleet/memory-needs.ts';
import { countEngines } from '../fleet/options.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { CommandContext } from './deps.ts';
import { formatBytes, formatSeconds } from './format.ts';
import type { Progress } from './progress.ts';
import type { PullPolicySetting } from './pull-policy.ts';

/** What is about to be made, where, and what it takes at least. */
export async function startingLine(
  options: ClusterOptions,
  adapterName: string,
  { backend }: CommandContext['deps'],
): Promise<string> {
  const { total } = leastMemory(options, await backend.architecture(options.model));
  return `starting ${countEngines(options)} with ${options.model} on ${adapterName}: ${formatBytes(total)} at least`;
}

/** The caller closes it. Rejects, with nothing left running, when the user interrupts or the policy cannot be applied. */
export async function startCluster(
  options: ClusterOptions,
  adapterName: string,
  { apply }: PullPolicySetting,
  progress: Progress,
  { deps, signal }: CommandContext,
): Promise<Cluster> {
  progress.line(await startingLine(options, adapterName, deps));
  const cluster = await deps.backend.startCluster(options);
  try {
    signal.throwIfAborted();
    progress.line(`ready in ${formatSeconds(cluster.info.startMs)}`);
    cluster.onNotice((notice) => {
      if (notice.kind === 'store') progress.line(notice.message);
    });
    await apply(cluster, progress);
    return cluster;
  } catch (error) {
    progress.end();
    await cluster.close();
    throw error;
  }
}
