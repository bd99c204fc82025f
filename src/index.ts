/** The library, in Node: `import { createCluster } from 'kvferry'`. */
import { EngineCluster } from './cluster/cluster.ts';
import { clusterOptions } from './cluster/from-config.ts';
import type { Cluster } from './cluster/types.ts';
import { parseRunConfig, type RunConfigInput } from './config/run.ts';
import { loadArchitecture } from './model/load.ts';
import { nodePlatform, useAdapter } from './platform/node.ts';

export type * from './cluster/types.ts';
export type { SamplingParams } from './engine/types.ts';
export * from './errors.ts';
export type { Span } from './measure/spans.ts';

/**
 * Starts a prefill and a decode engine, each in a thread with a WebGPU device of its own. Takes the settings of the
 * command line, in camelCase; the mode is the last of `mode`. Close it when done.
 *
 *     const cluster = await createCluster({ model: 'recall', threshold: 0 });
 *     for await (const token of cluster.generate({ conversationId: 'a', messages })) process.stdout.write(token.text);
 *     await cluster.close();
 *
 * Throws ConfigError, ModelError or AdapterError.
 */
export async function createCluster(settings: RunConfigInput = {}): Promise<Cluster> {
  const config = parseRunConfig(settings);
  const architecture = await loadArchitecture(config.model, await nodePlatform.openModel(config.model));
  const adapter = await useAdapter(config.adapter);
  return EngineCluster.start(nodePlatform, clusterOptions(config, architecture, adapter.software));
}
