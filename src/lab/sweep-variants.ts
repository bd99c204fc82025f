/** Sweeps clusters of several block sizes and layouts: starts, sweeps, checks and closes each in turn. */
import { type RunConfig, reportedSettings } from '../config/run.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { SweepReport } from '../measure/schemas/sweep-report.ts';
import { makeHead, type ReportSource } from './run-report.ts';
import { type SweepHooks, type SweepPlan, type SweepSeries, sweepCluster, sweepTurns } from './sweep.ts';
import { type SeriesSettings, seriesReport } from './sweep-report.ts';

export interface SweepVariant extends Pick<SeriesSettings, 'blockSize' | 'layout'> {
  options: ClusterOptions;
}

export interface SweptVariants {
  /** Of the first cluster. */
  info: Cluster['info'];
  measured: readonly { variant: SweepVariant; series: readonly SweepSeries[] }[];
}

/** Returns what was measured until the signal aborted; null if no cluster had started. Progress counts all clusters. */
export async function sweepVariants(
  variants: readonly SweepVariant[],
  plan: SweepPlan,
  start: (options: ClusterOptions) => Promise<Cluster>,
  { signal, onProgress }: Required<Pick<SweepHooks, 'signal' | 'onProgress'>>,
): Promise<SweptVariants | null> {
  const turns = sweepTurns(plan);
  const measured: { variant: SweepVariant; series: SweepSeries[] }[] = [];
  let info: Cluster['info'] | null = null;
  for (const [index, variant] of variants.entries()) {
    if (signal.aborted) break;
    let cluster: Cluster | null = null;
    try {
      cluster = await start(variant.options);
      info ??= cluster.info;
      const series: SweepSeries[] = [];
      measured.push({ variant, series });
      await sweepCluster(cluster, plan, {
        signal,
        onProgress: (done, _, what) => onProgress(index * turns + done, variants.length * turns, what),
        onPoint(of) {
          if (!series.includes(of)) series.push(of);
        },
      });
      await cluster.checkIntegrity();
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      await cluster?.close();
    }
  }
  return info && { info, measured };
}

/** `lists`: the settings for which several values were given. */
export function makeSweepReport(
  source: ReportSource,
  config: RunConfig,
  { info, measured }: SweptVariants,
  how: { lists: Readonly<Record<string, unknown>>; plan: SweepPlan; complete: boolean },
): SweepReport {
  const { lists, plan, complete } = how;
  const { name, parameters, kvBytesPerToken } = info.model;
  const thresholds = [...new Set(((lists.threshold ?? []) as readonly unknown[]).map(Number))];
  const settings = { thresholds: [...thresholds.sort((a, b) => a - b), null], seed: config.seed };
  return {
    ...makeHead('sweep', source, info.adapter),
    complete,
    model: { name, parameters, kv_bytes_per_token: kvBytesPerToken },
    config: { ...reportedSettings(config), ...lists },
    rounds: plan.rounds,
    new_tokens: plan.newTokens,
    series: measured.flatMap(({ variant: { blockSize, layout }, series }) =>
      series.map((each) => seriesReport(each, { blockSize, layout, ...settings })),
    ),
  };
}
