/** From a cluster and its runs to the report. */
import type { Cluster } from '../cluster/types.ts';
import type { RunConfig } from '../config/run.ts';
import { compareRuns, type LogitKeeper } from '../measure/comparison.ts';
import type { Report, RunReport } from '../measure/report.ts';

export function makeReport(
  version: string,
  config: RunConfig,
  cluster: Cluster,
  runs: readonly RunReport[],
  keeper: LogitKeeper | null,
): Report {
  const { adapter, model, engines, startMs, link } = cluster.info;
  return {
    kvferry: version,
    adapter: {
      name: adapter.name,
      backend: adapter.backend,
      software: adapter.software,
      features: [...adapter.features],
    },
    model: {
      name: model.name,
      parameters: model.parameters,
      vocab_size: model.vocabSize,
      max_model_len: model.maxModelLen,
      kv_bytes_per_token: model.kvBytesPerToken,
      block_bytes: model.blockBytes,
    },
    config: { ...config },
    link: link && { name: link.name, bytes_per_second: link.bytesPerSecond, latency_ms: link.latencyMs },
    start_up: {
      total_ms: startMs,
      engines: engines.map((engine) => ({
        engine_id: engine.engineId,
        role: engine.role,
        num_blocks: engine.numBlocks,
        load_ms: engine.loadMs,
        compile_ms: engine.compileMs,
        pipelines: engine.pipelines,
      })),
    },
    runs: [...runs],
    comparison: compareRuns(runs, keeper?.maxDifference ?? null),
  };
}
