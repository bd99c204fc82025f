/** A cluster in this browser: each engine in a thread with a WebGPU device of its own. */
import type { RunConfig } from '../../../src/config/run.ts';
import { EngineCluster } from '../../../src/fleet/cluster.ts';
import { clusterOptions } from '../../../src/fleet/from-config.ts';
import { describeAdapter } from '../../../src/gpu/device.ts';
import { loadArchitecture } from '../../../src/model/load.ts';
import type { ModelFiles } from '../../../src/platform/browser/blobs.ts';
import { browserPlatform } from '../../../src/platform/browser.ts';
import type { FileSource } from '../../../src/platform/types.ts';

export interface StartOptions {
  /** Of the model; null: a preset. */
  files: FileSource | null;
  /** What engines find by a model's name. */
  models: ReadonlyMap<string, ModelFiles>;
  /** Pools have so many blocks at least. */
  leastBlocks: number;
  /** Told before engines are built. `slow`: a sentence for those whose computer computes on its processor, or ''. */
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
  onBuild(software ? ' This computer computes on its processor, so give it a few seconds.' : '');
  const options = clusterOptions(config, architecture, software);
  const roomy = (pool: typeof options.prefill) => ({
    ...pool,
    numBlocks: Math.max(pool.numBlocks, leastBlocks),
  });
  return EngineCluster.start(browserPlatform(models), {
    ...options,
    prefill: roomy(options.prefill),
    decode: roomy(options.decode),
  });
}
