/** The library for Node: `import { createCluster } from 'kvferry'`. */
import { readFile } from 'node:fs/promises';
import { parseCostProfile, refuseIdleProfile } from './config/cost-profile.ts';
import { parseRunConfig, quoted, type RunConfigInput } from './config/run.ts';
import { ConfigError } from './errors.ts';
import { autoscaleChoice } from './fleet/autoscale-choice.ts';
import { startAutoscaler } from './fleet/autoscaled.ts';
import { EngineCluster } from './fleet/cluster.ts';
import { clusterOptions } from './fleet/from-config.ts';
import type { Cluster } from './fleet/types.ts';
import { type CostAwareStart, startCostAware } from './lab/calibrate.ts';
import { loadArchitecture } from './model/load.ts';
import { withProbes } from './platform/node/cached-probes.ts';
import { importModule } from './platform/node/import-module.ts';
import { nodePlatform, useAdapter } from './platform/node.ts';
import { addOwnPolicies } from './router/policies/add-own.ts';

export type { Mode } from './config/modes.ts';
export type { RoutingChoice } from './config/routing.ts';
export type { RunConfigInput } from './config/run.ts';
export type { SamplingParams } from './engine/types.ts';
export {
  AdapterError,
  ConfigError,
  ConflictError,
  EngineDeadError,
  type ErrorCode,
  InternalError,
  KvferryError,
  ModelError,
  PolicyError,
  RefusedError,
  RequestError,
  RoutingError,
  TransferError,
} from './errors.ts';
export type { CacheEventBatch, ClusterNotice } from './fleet/notices.ts';
export type * from './fleet/scale-report.ts';
export type * from './fleet/types.ts';
export type { EngineStats } from './host/engine-report.ts';
export type { TimingMode } from './measure/spans/profile.ts';
export type { Span } from './measure/spans/spans.ts';
export type * from './router/plan.ts';
export type { RoutingDeps } from './router/policies/definition.ts';
export type { OwnParameters, OwnPolicy, OwnRoutingPolicy } from './router/policies/own.ts';
export type { DrainRule } from './router/scaling/drain.ts';
export type { ScaleTarget } from './router/scaling/plan.ts';
export type * from './router/turn-types.ts';
export type { LinkSpec } from './transport/link.ts';

/**
 * Starts one prefill and one decode engine, or as many of each as `prefill` and `decode` say, or a whole `fleet`. Each
 * engine runs in its own thread with its own WebGPU device. The settings are those of the command line, in camelCase.
 * If `mode` lists several modes, the last one is used. Close the cluster when done.
 *
 *     const cluster = await createCluster({ model: 'recall', threshold: 0 });
 *     for await (const token of cluster.generate({ conversationId: 'a', messages })) process.stdout.write(token.text);
 *     await cluster.scale({ prefill: 2, decode: 2 });
 *     await cluster.close();
 *
 * Throws ConfigError, ModelError or AdapterError.
 */
export async function createCluster(settings: RunConfigInput = {}): Promise<Cluster> {
  const own = await addOwnPolicies(settings.routingModule, { importModule });
  const config = parseRunConfig(own.length > 0 ? { routing: own, ...settings } : settings);
  refuseIdleProfile(config, quoted);
  const architecture = await loadArchitecture(config.model, await nodePlatform.openModel(config.model));
  const adapter = await useAdapter(config.adapter);
  const profile = config.pullPolicy === 'cost-aware' ? await readProfile(config.costProfile) : null;
  const options = clusterOptions(config, architecture, adapter.software, quoted);
  const scaling = autoscaleChoice(config);
  const cluster = await withProbes(() => EngineCluster.start(nodePlatform, options));
  try {
    if (config.pullPolicy === 'cost-aware') {
      const date = new Date().toISOString();
      await startCostAware(cluster, { profile, version: 'library', date, seed: config.seed });
    }
    if (scaling) startAutoscaler(cluster, scaling);
    return cluster;
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

async function readProfile(file: string | null): Promise<CostAwareStart['profile']> {
  if (file === null) return null;
  const text = await readFile(file, 'utf8').catch((error) => {
    throw new ConfigError(`cannot read ${file}: ${error.message}`, { cause: error });
  });
  return { value: parseCostProfile(text, file), source: file };
}
