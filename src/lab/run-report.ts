/** Builds the report of `run` from a cluster and its runs, and the head that all reports share. */
import { type RunConfig, reportedSettings } from '../config/run.ts';
import type { Cluster } from '../fleet/types.ts';
import type { Integrity, Report, RunReport } from '../measure/schemas/report.ts';
import { type HeadKind, type Machine, REPORT_VERSION } from '../measure/schemas/report-head.ts';
import type { TurnTimeline } from '../measure/spans/turn-timeline.ts';
import { compareRuns, type LogitKeeper, loadedKeptKv } from '../measure/summaries/comparison.ts';

/** The program and machine that write a report. */
export interface ReportSource {
  version: string;
  /** Date and time as ISO 8601, UTC. */
  today(): string;
  machine(): Machine;
}

export interface RunResults {
  runs: readonly RunReport[];
  keeper: LogitKeeper | null;
  integrity: Integrity;
  timeline: TurnTimeline | null;
}

export function makeReport(
  source: ReportSource,
  config: RunConfig,
  cluster: Cluster,
  { runs, keeper, integrity, timeline }: RunResults,
): Report {
  const { model, engines, startMs, link } = cluster.info;
  const settings = { ...reportedSettings(config) };
  return {
    ...makeHead('run', source, cluster.info.adapter),
    model: {
      name: model.name,
      parameters: model.parameters,
      vocab_size: model.vocabSize,
      max_model_len: model.maxModelLen,
      kv_bytes_per_token: model.kvBytesPerToken,
      block_bytes: model.blockBytes,
    },
    config: settings,
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
        driver_threads: engine.driverThreads,
      })),
    },
    runs: [...runs],
    comparison: compareRuns(
      runs,
      keeper?.maxDifference ?? null,
      !loadedKeptKv({ config: settings, runs: [...runs] }),
    ),
    timeline,
    integrity,
  };
}

/** The fields at the start of every report. */
export const makeHead = <K extends HeadKind>(
  kind: K,
  source: ReportSource,
  adapter: Pick<Cluster['info']['adapter'], keyof Report['adapter']>,
) => ({
  kvferry: source.version,
  kind,
  schema_version: REPORT_VERSION as typeof REPORT_VERSION,
  created: source.today(),
  machine: source.machine(),
  adapter: {
    name: adapter.name,
    backend: adapter.backend,
    software: adapter.software,
    features: [...adapter.features],
    arithmetic: adapter.arithmetic ?? 'f32',
  },
});
