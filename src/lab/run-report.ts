/** From a cluster and its runs to the report. */

import type { CliDeps } from '../cli/deps.ts';
import { type RunConfig, reportedSettings } from '../config/run.ts';
import type { Cluster } from '../fleet/types.ts';
import { compareRuns, type LogitKeeper } from '../measure/comparison.ts';
import type { Integrity, Report, RunReport } from '../measure/report.ts';
import { REPORT_VERSION, type ReportKind } from '../measure/report-head.ts';
import type { TurnTimeline } from '../measure/turn-timeline.ts';

export function makeReport(
  deps: Pick<CliDeps, 'version' | 'today' | 'machine'>,
  config: RunConfig,
  cluster: Cluster,
  runs: readonly RunReport[],
  keeper: LogitKeeper | null,
  integrity: Integrity,
  timeline: TurnTimeline | null,
): Report {
  const { model, engines, startMs, link } = cluster.info;
  return {
    ...makeHead('run', deps, cluster),
    model: {
      name: model.name,
      parameters: model.parameters,
      vocab_size: model.vocabSize,
      max_model_len: model.maxModelLen,
      kv_bytes_per_token: model.kvBytesPerToken,
      block_bytes: model.blockBytes,
    },
    config: { ...reportedSettings(config) },
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
    timeline,
    integrity,
  };
}

/** What every command's report begins with. */
export function makeHead<K extends ReportKind>(
  kind: K,
  deps: Pick<CliDeps, 'version' | 'today' | 'machine'>,
  { info: { adapter } }: Pick<Cluster, 'info'>,
) {
  return {
    kvferry: deps.version,
    kind,
    schema_version: REPORT_VERSION as typeof REPORT_VERSION,
    created: deps.today(),
    machine: deps.machine(),
    adapter: {
      name: adapter.name,
      backend: adapter.backend,
      software: adapter.software,
      features: [...adapter.features],
    },
  };
}
