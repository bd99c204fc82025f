/** What a simulated trial showed: which share of the requests that count keeps the SLO, and why the others do not. */

import { linearRegression } from 'simple-statistics';
import { sortedQuantile } from '../../measure/statistics.ts';
import { sum, sumOf } from '../../sum.ts';
import { type SimulatedRun, verdictOfRun } from '../results/outcome.ts';
import type { Slo as Limits } from '../results/summary.ts';
import type { Verdict } from '../results/verdict.ts';
import type { Candidate } from './candidate.ts';
import { type Batch, type Interval, shareInterval, shareOfBatches } from './confidence.ts';

export interface Slo extends Limits {
  /** Share of requests that must keep both. */
  attainment: number;
}

export interface Trial {
  candidate: Candidate;
  /** Requests a second. */
  perSecond: number;
  /** Number of requests, from the beginning of the workload. */
  sample: number;
  /** Warm-ups to begin with, where it is known how many are needed; absent: none. */
  warmUps?: number;
  /** A trace's requests come at even gaps, also those that it has at the same time; absent: at its times. */
  evenly?: boolean;
}

export interface Quantiles {
  p50: number;
  p90: number;
}

/**
 * Results of the requests that arrived while the load was up: after the warm-up, which is at least a fifth of the
 * arrival time.
 */
export interface Outcome extends Trial {
  /** Requests in the load, those of the warm-up included. */
  withWarmUp: number;
  share: number;
  interval: Interval;
  batches: readonly Batch[];
  counted: number;
  /** Requests that missed the limit of TTFT, that of TPOT, or that failed. */
  missed: { ttft: number; tpot: number; failed: number };
  /** Quantiles in milliseconds; null without any request. */
  ttftMs: Quantiles | null;
  tpotMs: Quantiles | null;
  /**
   * Milliseconds by which TTFT grows in each millisecond of that time, on average over the seeds: by this share more
   * requests arrive than an overloaded fleet serves.
   */
  waitGrowth: number;
  /** Mean stay of a conversation, milliseconds. */
  stayMs: number;
  /** Requests a second that kept the SLO. */
  goodPerSecond: number;
  /** Requests that would have arrived in that time if no answer took any: by the rate, or by the trace. */
  due: number;
  /** Time in which the counted requests arrived, milliseconds. */
  countedMs: number;
  verdict: Verdict['word'];
  /** Share of the time in steps, on average over the role's engines. */
  busy: { prefill: number; decode: number };
  /** Whether enough requests kept the SLO, and the backlog does not grow without end. */
  met: boolean;
}

/**
 * Share of the due requests that must arrive for a rate to count as sustained: where conversations stay long, fewer
 * arrive. When a conversation's later turns come depends on its answers, so some may be missing.
 */
const LEAST_ARRIVED = 0.9;

/** Requests a second that arrived, of those that count. */
export const arrivalRateOf = ({ counted, countedMs }: Pick<Outcome, 'counted' | 'countedMs'>): number =>
  (1000 * counted) / Math.max(1e-9, countedMs);

export const arrivedAsPlanned = ({ counted, due }: Pick<Outcome, 'counted' | 'due'>): boolean =>
  counted >= LEAST_ARRIVED * due;

/** Share of the arrival time that is warm-up at least. */
export const WARM_UP_SHARE = 0.2;
/** Share of a conversation's mean stay that the warm-up must cover: few conversations stay much longer. */
export const NEARLY_ALL = 0.8;

/** Whether the fifth of the time that is warm-up anyway is long enough for conversations that stay so long. */
export const isBrief = ({
  stayMs,
  sample,
  perSecond,
}: Pick<Outcome, 'stayMs' | 'sample' | 'perSecond'>): boolean =>
  NEARLY_ALL * stayMs <= (WARM_UP_SHARE * 1000 * sample) / perSecond;

/** Share of the requests that a fleet may fall behind by at a rate that it sustains. */
export const MOST_BEHIND = 0.03;

/**
 * Whether requests arrive as often as asked and are served as fast. In a short sample all may keep the SLO though ever
 * more of them wait, or though conversations wait so long that their next turns are still to come.
 */
export function isSustained(outcome: Outcome): boolean {
  const { counted, due, waitGrowth } = outcome;
  const missing = isBrief(outcome) ? Math.max(0, 1 - counted / due) : 0;
  return arrivedAsPlanned(outcome) && missing + Math.max(0, waitGrowth) < MOST_BEHIND;
}

/** Few, so that each is long beside the time for which a queue remembers: shorter batches differ too little. */
const BATCHES = 5;

/** Share of the arrival time after which requests count. */
export const countsFrom = ({ withWarmUp, sample }: Pick<Outcome, 'withWarmUp' | 'sample'>): number =>
  Math.max(1 - sample / withWarmUp, WARM_UP_SHARE);

/** What one seed's run adds to an outcome. */
export interface CountedRun {
  batches: Batch[];
  missed: Outcome['missed'];
  ttfts: number[];
  tpots: number[];
  waitGrowth: number;
  stayMs: number;
  due: number;
  countedMs: number;
  score: number;
  verdict: Outcome['verdict'];
  busy: Outcome['busy'];
}

/** `warmUpShare`: share of the arrival time that is warm-up. */
export function countRun(
  run: SimulatedRun,
  slo: Slo,
  warmUpShare: number,
  dueIn: (fromMs: number, untilMs: number) => number,
): CountedRun {
  const { cluster, collector, lastComesMs } = run;
  const untilMs = lastComesMs ?? collector.conversations.lastMs;
  const fromMs = Math.max(warmUpShare, WARM_UP_SHARE) * untilMs;
  const countedMs = untilMs - fromMs;
  const batches = Array.from({ length: BATCHES }, (): Batch => ({ counted: 0, good: 0 }));
  const missed = { ttft: 0, tpot: 0, failed: 0 };
  /** The batch of a request that arrived then; null: it does not count. */
  const batchAt = (startMs: number): Batch | null => {
    const sinceMs = startMs - fromMs;
    if (sinceMs < 0 || sinceMs > countedMs) return null;
    return batches[Math.min(BATCHES - 1, Math.floor((BATCHES * sinceMs) / Math.max(countedMs, 1e-9)))]!;
  };
  const [ttfts, tpots]: [number[], number[]] = [[], []];
  const waits: [number, number][] = [];
  const [starts, firsts] = [collector.column('startMs'), collector.column('ttftMs')];
  for (let i = 0; i < collector.count; i++) {
    const batch = batchAt(starts[i]!);
    if (!batch) continue;
    const ttftMs = firsts[i]!;
    const tpotMs = collector.tpotMs(i);
    ttfts.push(ttftMs);
    waits.push([starts[i]!, ttftMs]);
    if (tpotMs !== null) tpots.push(tpotMs);
    const late = { ttft: ttftMs > (slo.ttftMs ?? Infinity), tpot: (tpotMs ?? 0) > (slo.tpotMs ?? Infinity) };
    if (late.ttft) missed.ttft++;
    if (late.tpot) missed.tpot++;
    batch.counted++;
    if (!late.ttft && !late.tpot) batch.good++;
  }
  // Requests without a result have failed if the run was given up; otherwise they do not count.
  for (const startMs of run.stopped ? [...collector.failedMs, ...collector.openMs] : collector.failedMs) {
    const batch = batchAt(startMs);
    if (!batch) continue;
    batch.counted++;
    missed.failed++;
  }
  const { word: verdict, score } = verdictOfRun(run, warmUpShare > 0 ? fromMs : null);
  const due = dueIn(fromMs, untilMs);
  return {
    ...{ batches, missed, ttfts, tpots, due, countedMs, score, verdict, busy: busyOf(cluster) },
    waitGrowth: growthOf(waits),
    stayMs: collector.stayMsSince(warmUpShare * collector.conversations.lastMs),
  };
}

/** The slope of these values over their times; 0 if there is one time only. */
const growthOf = (values: [atMs: number, ms: number][]): number =>
  new Set(values.map(([atMs]) => atMs)).size > 1 ? linearRegression(values).m : 0;

function busyOf({ engines }: SimulatedRun['cluster']): Outcome['busy'] {
  const mean = (role: 'prefill' | 'decode'): number => {
    const shares = engines
      .filter((engine) => engine.role === role)
      .map(({ meter }) => meter.mean()?.busy ?? 0);
    return sum(shares) / Math.max(1, shares.length);
  };
  return { prefill: mean('prefill'), decode: mean('decode') };
}

export function outcomeOf(trial: Trial, withWarmUp: number, runs: readonly CountedRun[], slo: Slo): Outcome {
  const batches = runs.flatMap((run) => run.batches);
  const total = (value: (run: CountedRun) => number): number => sumOf(runs, value);
  const good = sumOf(batches, (batch) => batch.good);
  const countedMs = total((run) => run.countedMs);
  const { verdict } = runs.reduce((worst, run) => (run.score > worst.score ? run : worst));
  const share = shareOfBatches(batches);
  return {
    ...trial,
    withWarmUp,
    share,
    interval: shareInterval(batches),
    batches,
    counted: sumOf(batches, ({ counted }) => counted),
    missed: {
      ttft: total(({ missed }) => missed.ttft),
      tpot: total(({ missed }) => missed.tpot),
      failed: total(({ missed }) => missed.failed),
    },
    ttftMs: quantilesOf(runs.flatMap(({ ttfts }) => ttfts)),
    tpotMs: quantilesOf(runs.flatMap(({ tpots }) => tpots)),
    waitGrowth: total(({ waitGrowth }) => waitGrowth) / runs.length,
    stayMs: total(({ stayMs }) => stayMs) / runs.length,
    goodPerSecond: countedMs > 0 ? (1000 * good) / countedMs : 0,
    due: total(({ due }) => due),
    countedMs,
    verdict,
    busy: {
      prefill: total(({ busy }) => busy.prefill) / runs.length,
      decode: total(({ busy }) => busy.decode) / runs.length,
    },
    // Without a limit of TTFT, requests that wait miss nothing: the fleet must be STABLE.
    met: share >= slo.attainment && (slo.ttftMs === null ? verdict === 'STABLE' : verdict !== 'OVERLOADED'),
  };
}

function quantilesOf(values: readonly number[]): Quantiles | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  return { p50: sortedQuantile(sorted, 0.5), p90: sortedQuantile(sorted, 0.9) };
}
