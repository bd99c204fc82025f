/** The start of a command that serves: P and D, told about as they come up, with the policy in force that was asked for. */
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { CommandContext } from './deps.ts';
import { formatSeconds } from './format.ts';
import type { Progress } from './progress.ts';
import type { PullPolicySetting } from './pull-policy.ts';

/** The caller closes it. Rejects, with nothing left running, when the user interrupts or the policy cannot be applied. */
export async function startCluster(
  options: ClusterOptions,
  adapterName: string,
  { apply }: PullPolicySetting,
  progress: Progress,
  { deps, signal }: CommandContext,
): Promise<Cluster> {
  progress.line(`starting P and D with ${options.model} on ${adapterName}`);
  const cluster = await deps.backend.startCluster(options);
  try {
    signal.throwIfAborted();
    progress.line(`ready in ${formatSeconds(cluster.info.startMs)}`);
    await apply(cluster, progress);
    return cluster;
  } catch (error) {
    progress.end();
    await cluster.close();
    throw error;
  }
}
