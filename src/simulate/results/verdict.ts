/**
 * Judges whether a fleet keeps up with its load, from the requests under way over time and from what is unfinished when
 * arrivals end.
 */
import { mean, min, sampleVariance } from 'simple-statistics';
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import type { Collector } from './collector.ts';

/** Share of the run that the comparison skips when it is unknown how long the fleet takes to fill. */
const FILLING_SHARE = 1 / 3;
/** Ratio of latencies up to which they count as equal. */
const NO_SLOWER = 1.05;
/** Standard errors by which two means must differ to count as different. */
const TOLD_APART = 2;
/** Slices of either half whose means are compared with each other. */
const SLICES = 5;
/** Unfinished share that counts as 1: a fleet that leaves half serves half of what arrives. */
const WORST_UNFINISHED = 1 / 2;
/** Share of the elapsed time by which TTFT must grow; below it, nothing piles up. */
const WAITS_GROW = 0.01;
/** The same while a fleet fills, if that is less than the shortest TTFT. */
const WAITS_GROW_FILLING = 0.1;
/** Share of the elapsed time that requests may wait; a queue as long as that has grown all the time. */
const WAITS_LONG = 1 / 4;
/** Requests whose waits are judged that way, at least: a few may all be long ones. */
const LEAST_WAITING = 30;
/** Share of the judged time beyond which conversations stay long. */
const LONG_STAY = 1 / 2;
const WEIGHTS = { growth: 0.6, unfinished: 0.4 };

export type Verdict = SimulatedArm['verdict'];

export interface Judged {
  /**
   * When a trace's last request would arrive if no answer took any time, ms. If set, the requests under way at that time
   * count as unfinished; otherwise, conversations do.
   */
  lastComesMs?: number | null;
  /** When the fleet had filled, ms; null: unknown. */
  filledMs?: number | null;
}

/** Judges a run. Failed requests do not count as under way. */
export function verdictOf(
  collector: Collector,
  { lastComesMs = null, filledMs = null }: Judged = {},
): Verdict {
  const { arrived, openAtLast, lastMs } = collector.conversations;
  // Clients that wait for each answer build no backlog: the whole run counts.
  const untilMs = lastComesMs ?? (arrived > 0 ? lastMs : collector.lastEndMs);
  const starts = collector.column('startMs');
  const latencies = collector.column('latencyMs');
  const fromMs = filledMs ?? FILLING_SHARE * untilMs;
  const halfMs = (fromMs + untilMs) / 2;
  const before = meanOpen(starts, latencies, fromMs, halfMs);
  // A wave that has passed by the end was no backlog.
  const sliceMs = (untilMs - halfMs) / SLICES;
  const after = Math.min(
    meanOpen(starts, latencies, halfMs, untilMs),
    meanOpen(starts, latencies, untilMs - sliceMs, untilMs),
  );
  // A load that grows evenly from zero has its mean in the middle of each half.
  const evenGrowth = (halfMs + untilMs) / (fromMs + halfMs) - 1;
  // Fewer than one request under way is no backlog.
  const open = (after / Math.max(1, before) - 1) / evenGrowth;
  // A filling fleet also has ever more requests under way. In a backlog, each request also waits longer than earlier
  // ones. Where conversations stay for most of the judged time, more of them may be there in one half than in the other,
  // because they gather or by chance. D's steps then take more rows and answers get longer though nothing waits, and only
  // TTFT shows a backlog.
  const byWaits = collector.stayMs > LONG_STAY * (untilMs - (filledMs ?? 0));
  const column = byWaits ? 'ttftMs' : 'latencyMs';
  const firsts = (sinceMs: number, toMs: number) => firstTurns(collector, column, sinceMs, toMs);
  // A run that is shorter than its conversations fills all the time: ever more turns come a second and share P's steps,
  // which is no queue yet.
  const fills = filledMs === null && collector.stayMs > untilMs;
  const betweenMs = untilMs - halfMs;
  const sharedMs = fills ? Math.min(WAITS_GROW_FILLING * betweenMs, min([...collector.column('ttftMs')])) : 0;
  const leastMs = byWaits ? Math.max(sharedMs, WAITS_GROW * betweenMs) : 0;
  const piledUp =
    isSlower(firsts(fromMs, halfMs), firsts(halfMs, untilMs), leastMs) ||
    meanWait(collector, halfMs, untilMs) > WAITS_LONG * untilMs;
  const growth = piledUp ? clamp(open) : 0;
  const unfinished =
    lastComesMs !== null ? shareOpen(starts, latencies, lastComesMs) : arrived > 0 ? openAtLast / arrived : 0;
  const score = WEIGHTS.growth * growth + WEIGHTS.unfinished * clamp(unfinished / WORST_UNFINISHED);
  return {
    word: score < 0.5 ? 'STABLE' : score < 0.75 ? 'BACKLOGGED' : 'OVERLOADED',
    score,
    growth,
    unfinished,
  };
}

const clamp = (share: number): number => Math.min(1, Math.max(0, share));

/** Mean number of requests under way in [fromMs, toMs). */
function meanOpen(starts: Float64Array, latencies: Float64Array, fromMs: number, toMs: number): number {
  if (toMs <= fromMs) return 0;
  let openMs = 0;
  starts.forEach((startMs, i) => {
    openMs += Math.max(0, Math.min(toMs, startMs + latencies[i]!) - Math.max(fromMs, startMs));
  });
  return openMs / (toMs - fromMs);
}

/** Mean TTFT of the turns that arrived in [fromMs, toMs), beyond the shortest of the run; 0 with too few of them. */
function meanWait(collector: Collector, fromMs: number, toMs: number): number {
  const starts = collector.column('startMs');
  const ttfts = collector.column('ttftMs');
  const judged = ttfts.filter((_, i) => starts[i]! >= fromMs && starts[i]! < toMs);
  return judged.length < LEAST_WAITING ? 0 : mean([...judged]) - min([...ttfts]);
}

interface Latencies {
  count: number;
  meanMs: number;
  /** Squared standard error of the mean, ms². */
  error: number;
}

/**
 * Latencies of the first turns that arrived in [fromMs, toMs). Later turns have longer prompts and come late in a short
 * run. Requests that arrive together share a load and are slow together, so the error is that of equal slices' means
 * where that is larger (batch means; Law & Kelton, Simulation Modeling and Analysis).
 */
function firstTurns(
  collector: Collector,
  column: 'ttftMs' | 'latencyMs',
  fromMs: number,
  toMs: number,
): Latencies {
  const starts = collector.column('startMs');
  const turns = collector.column('turn');
  const latencies = collector.column(column);
  const slices: number[][] = Array.from({ length: SLICES }, () => []);
  starts.forEach((startMs, i) => {
    if (startMs < fromMs || startMs >= toMs || turns[i] !== 1) return;
    slices[Math.floor((SLICES * (startMs - fromMs)) / (toMs - fromMs))]!.push(latencies[i]!);
  });
  const all = slices.flat();
  const means = slices.filter(({ length }) => length > 0).map(mean);
  return {
    count: all.length,
    meanMs: all.length > 0 ? mean(all) : 0,
    error: Math.max(squaredError(all), squaredError(means)),
  };
}

/** Squared standard error of the values' mean; 0 with fewer than two values. */
const squaredError = (values: number[]): number =>
  values.length > 1 ? sampleVariance(values) / values.length : 0;

/** Whether `after` is longer by more than chance; false with fewer than two samples in either. */
const isSlower = (before: Latencies, after: Latencies, leastMs: number): boolean =>
  Math.min(before.count, after.count) > 1 &&
  after.meanMs - before.meanMs > leastMs &&
  after.meanMs > NO_SLOWER * before.meanMs &&
  after.meanMs - before.meanMs > TOLD_APART * Math.sqrt(before.error + after.error);

/** Share of the requests that arrived by atMs and were still under way then. */
function shareOpen(starts: Float64Array, latencies: Float64Array, atMs: number): number {
  let [arrived, open] = [0, 0];
  starts.forEach((startMs, i) => {
    if (startMs > atMs) return;
    arrived++;
    if (startMs + latencies[i]! > atMs) open++;
  });
  return arrived > 0 ? open / arrived : 0;
}
