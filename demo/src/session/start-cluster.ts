/** Starts a cluster in this browser, each engine in a thread with its own WebGPU device. */
import type { RunConfig } from '../../../src/config/run.ts';
import { EngineCluster } from '../../../src/fleet/cluster.ts';
import { clusterOptions } from '../../../src/fleet/from-config.ts';
import { describeAdapter } from '../../../src/gpu/device.ts';
import { loadArchitecture } from '../../../src/model/load.ts';
import type { ModelFiles } from '../../../src/platform/browser/blobs.ts';
import { browserPlatform } from '../../../src/platform/browser.ts';
import type { FileSource } from '../../../src/platform/types.ts';
import { findCode, loseCode } from './fetch-code.ts';

export interface StartOptions {
  /** The model's files; null: a preset. */
  files: FileSource | null;
  /** Model files by name, for the engines. */
  models: ReadonlyMap<string, ModelFiles>;
  /** The least number of blocks of a pool. */
  leastBlocks: number;
  /** Called before engines are built. `slow`: a sentence if this computer computes on its processor, else ''. */
  onBuild: (slow: string) => void;
}

/** Throws KvferryError, with nothing left running. */
export async function startCluster(
  config: RunConfig,
  { files, models, leastBlocks, onBuild }: StartOptions,
): Promise<EngineCluster> {
  const architecture = await loadArchitecture(config.model, files);
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  const software = adapter ? describeAdapter(adapter).software : false;
  onBuild(software ? ' This computer computes on its processor, so it takes a few seconds.' : '');
  const options = clusterOptions(config, architecture, software);
  const roomy = (pool: typeof options.prefill) => ({
    ...pool,
    numBlocks: Math.max(pool.numBlocks, leastBlocks),
  });
  const platform = browserPlatform(models, new Map(), () => loseCode('engines'));
  const cluster = await EngineCluster.start(platform, {
    ...options,
    prefill: roomy(options.prefill),
    decode: roomy(options.decode),
  });
  findCode('engines');
  return cluster;
}
