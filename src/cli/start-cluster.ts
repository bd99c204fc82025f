/** Starts the engines of a command, with progress lines, and applies the pull policy. */
import { leastMemory } from '../fleet/memory-needs.ts';
import { countEngines } from '../fleet/options.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import { formatBytes, formatSeconds } from '../measure/format.ts';
import { neverOffered } from '../router/next-turn-hold.ts';
import type { CommandContext } from './deps.ts';
import type { PullPolicySetting } from './options/pull-policy.ts';
import type { Progress } from './output/progress.ts';

/** A line with the engines, model, adapter and the least memory needed; and one if its TTL turns pulling back off. */
export async function tellStart(
  options: ClusterOptions,
  adapterName: string,
  progress: Progress,
  { backend }: CommandContext['deps'],
): Promise<void> {
  const { total, store } = leastMemory(options, await backend.architecture(options.model));
  const ofStore = store > 0 ? `, ${formatBytes(store)} of it for the store` : '';
  progress.line(
    `starting ${countEngines(options)} with ${options.model} on ${adapterName}: ${formatBytes(total)} at least${ofStore}`,
  );
  const { decoderTtlMs } = options.connector.nixl;
  if (options.mode === 'bidirectional' && neverOffered(decoderTtlMs))
    progress.line(
      `nothing will be pulled back: --ttl is ${decoderTtlMs / 1000} s, and D does not offer KV in the last 5 s before it expires; give more than 5 s`,
    );
}

/** The caller must close the cluster. Rejects, with nothing left running, if the user interrupts or the policy cannot be applied. */
export async function startCluster(
  options: ClusterOptions,
  adapterName: string,
  { apply }: PullPolicySetting,
  progress: Progress,
  { deps, signal }: CommandContext,
): Promise<Cluster> {
  await tellStart(options, adapterName, progress, deps);
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
