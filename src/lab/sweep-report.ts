/** Builds a sweep's report: medians, the winner at each point, the crossover, and the cost of thresholds. */
import type { KvLayout } from '../config/run.ts';
import { type CurvePoint, crossover, recomputeOverPull, thresholdCost } from '../measure/crossover.ts';
import { outcomeOf } from '../measure/outcome.ts';
import type { SweepPointReport, SweepSeriesReport } from '../measure/schemas/sweep-report.ts';
import { median, quantile } from '../measure/statistics.ts';
import { sumOf } from '../sum.ts';
import type { SweepPoint, SweepSample, SweepSeries } from './sweep.ts';

export interface SeriesSettings {
  blockSize: number;
  layout: KvLayout;
  /** null: never pull. */
  thresholds: readonly (number | null)[];
  seed: number;
}

export function seriesReport(series: SweepSeries, settings: SeriesSettings): SweepSeriesReport {
  const { link, localHitTokens, points } = series;
  const curve = curveOf(points);
  const costs = settings.thresholds.map((threshold) => ({
    threshold,
    ...thresholdCostOf(curve, threshold),
  }));
  return {
    link: link && { name: link.name, bytes_per_second: link.bytesPerSecond, latency_ms: link.latencyMs },
    throttled: link !== null,
    block_size: settings.blockSize,
    layout: settings.layout,
    local_hit_tokens: localHitTokens,
    points: points.map((point) => pointReport(point, settings.seed)),
    crossover: curve.length > 0 ? crossover(curve, settings.seed) : null,
    best_total_ms:
      curve.length > 0
        ? sumOf(curve, ({ pullMs, recomputeMs }) => Math.min(median(pullMs), median(recomputeMs)))
        : null,
    thresholds: curve.length > 0 ? costs : [],
  };
}

/** The points that were measured both pulled and recomputed. */
const curveOf = (points: readonly SweepPoint[]): CurvePoint[] =>
  points
    .filter(({ samples }) => samples.pull.length > 0 && samples.recompute.length > 0)
    .map(({ contextTokens, samples }) => ({
      tokens: contextTokens,
      pullMs: samples.pull.map(({ ttftMs }) => ttftMs),
      recomputeMs: samples.recompute.map(({ ttftMs }) => ttftMs),
    }));

function thresholdCostOf(curve: readonly CurvePoint[], threshold: number | null) {
  const { totalMs, regretMs } = thresholdCost(curve, threshold ?? Number.POSITIVE_INFINITY);
  return { total_ttft_ms: totalMs, regret_ms: regretMs };
}

const WINNER = { ahead: 'pull', behind: 'recompute', tie: 'neither' } as const;

function pointReport(point: SweepPoint, seed: number): SweepPointReport {
  const { contextTokens, promptTokens, samples } = point;
  const { pull, recompute, monolithic } = samples;
  const [both] = curveOf([point]);
  return {
    context_tokens: contextTokens,
    prompt_tokens: promptTokens,
    pull: pull.length > 0 ? { ...times(pull), ...moved(pull) } : null,
    recompute: recompute.length > 0 ? times(recompute) : null,
    monolithic: monolithic.length > 0 ? times(monolithic) : null,
    winner: both ? WINNER[outcomeOf(recomputeOverPull(both, seed))] : null,
    rounds_won_by_pull: both
      ? pull.filter(({ ttftMs }, round) => ttftMs < recompute[round]!.ttftMs).length
      : null,
  };
}

function times(samples: readonly SweepSample[]) {
  const ttft = samples.map(({ ttftMs }) => ttftMs);
  return {
    ttft_ms: ttft,
    median: median(ttft),
    p25: quantile(ttft, 0.25),
    p75: quantile(ttft, 0.75),
    computed_tokens: samples[0]!.computedTokens,
  };
}

function moved(samples: readonly SweepSample[]) {
  const { transfer, pulledTokens } = samples[0]!;
  const ms = median(samples.map((sample) => sample.transfer?.ms ?? 0));
  const bytes = transfer?.bytes ?? 0;
  return {
    pulled_tokens: pulledTokens,
    bytes,
    blocks: transfer?.blocks ?? 0,
    descriptors: transfer?.descriptors ?? 0,
    transfer_ms: ms,
    gbps: ms > 0 ? bytes / ms / 1e6 : null,
  };
}
