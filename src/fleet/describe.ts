/** Describes a started cluster, for reports. */
import type { TextModel } from '../model/load.ts';
import { kvBlockBytes } from '../model/types.ts';
import type { EnginePool } from './engine-pool.ts';
import { poolOf } from './options.ts';
import type { ClusterInfo, ClusterOptions } from './types.ts';

export function describe(
  options: ClusterOptions,
  { fleet, all: engines }: Pick<EnginePool, 'fleet' | 'all'>,
  text: TextModel,
  startMs: number,
): ClusterInfo {
  const { architecture } = text;
  const first = engines[0]!.started;
  return {
    adapter: first.adapter,
    gemm: options.gemm ?? null,
    model: {
      name: architecture.name,
      parameters: first.parameters,
      vocabSize: architecture.vocabSize,
      maxModelLen: Math.min(options.maxModelLen, architecture.maxModelLen),
      kvBytesPerToken: kvBlockBytes(architecture, 1, options.kvDtype),
      blockBytes: first.blockBytes,
      eosTokenIds: architecture.eosTokenIds,
    },
    engines: engines.map(({ engineId, role, started, startMs: ownMs }, i) => ({
      engineId,
      role,
      numBlocks: poolOf(options, fleet.seats[i]!).numBlocks,
      startMs: ownMs,
      memory: started.memory,
      loadMs: started.loadMs,
      compileMs: started.compileMs,
      pipelines: started.pipelines,
      driverThreads: started.driverThreads,
    })),
    startMs,
    link: options.link,
  };
}
