/** Whether a fleet keeps up with those who come: by how many requests are under way, and how many conversations when nobody comes any more. */
import type { SimulatedArm } from '../measure/simulation-report.ts';
import type { Collector } from './collector.ts';

/** Left out of a comparison of earlier and later ones, where nobody says how long a fleet fills. */
const FILLING_SHARE = 1 / 3;
/** Latencies that differ by less are taken for the same. */
const NO_SLOWER = 1.05;
/** Standard errors that a difference of means must have to be told from chance. */
const TOLD_APART = 2;
/** Where half of all are left, the fleet serves half of what comes. */
const WORST_UNFINISHED = 1 / 2;
/** Of the time that passes: where first tokens take longer by less, nothing piles up. */
const WAITS_GROW = 0.01;
/** Of a run. */
const LONG_STAY = 1 / 2;
const WEIGHTS = { growth: 0.6, unfinished: 0.4 };

export type Verdict = SimulatedArm['verdict'];

export interface Judged {
  /** When the last request of a trace comes that waits for no other: those under way then count as unfinished, as conversations do elsewhere. */
  lastComesMs?: number | null;
  /** When the fleet has filled; null: nobody knows. */
  filledMs?: number | null;
}

/** Requests that failed are not counted as under way. */
export function verdictOf(
  collector: Collector,
  { lastComesMs = null, filledMs = null }: Judged = {},
): Verdict {
  const { came, openAtLast, lastMs } = collector.conversations;
  // Clients who wait for each answer are never more than they are.
  const untilMs = lastComesMs ?? (came > 0 ? lastMs : collector.lastEndMs);
  const starts = collector.column('startMs');
  const latencies = collector.column('latencyMs');
  const fromMs = filledMs ?? FILLING_SHARE * untilMs;
  const halfMs = (fromMs + untilMs) / 2;
  const before = meanOpen(starts, latencies, fromMs, halfMs);
  const after = meanOpen(starts, latencies, halfMs, untilMs);
  // What grows evenly from nothing is at its mean in the middle of each half.
  const evenGrowth = (halfMs + untilMs) / (fromMs + halfMs) - 1;
  // Below one request nothing is a backlog.
  const open = (after / Math.max(1, before) - 1) / evenGrowth;
  // More are under way while a fleet fills, too; but in a backlog each also waits longer than those before it.
  const byWaits = stayLong(collector, untilMs);
  const column = byWaits ? 'ttftMs' : 'latencyMs';
  const firsts = (sinceMs: number, toMs: number) => firstTurns(collector, column, sinceMs, toMs);
  const leastMs = byWaits ? WAITS_GROW * (untilMs - halfMs) : 0;
  const growth = isSlower(firsts(fromMs, halfMs), firsts(halfMs, untilMs), leastMs) ? clamp(open) : 0;
  const unfinished =
    lastComesMs !== null ? shareOpen(starts, latencies, lastComesMs) : came > 0 ? openAtLast / came : 0;
  const score = WEIGHTS.growth * growth + WEIGHTS.unfinished * clamp(unfinished / WORST_UNFINISHED);
  return {
    word: score < 0.5 ? 'STABLE' : score < 0.75 ? 'BACKLOGGED' : 'OVERLOADED',
    score,
    growth,
    unfinished,
  };
}

const clamp = (share: number): number => Math.min(1, Math.max(0, share));

/** Requests under way in [fromMs, toMs), on average. */
function meanOpen(starts: Float64Array, latencies: Float64Array, fromMs: number, toMs: number): number {
  if (toMs <= fromMs) return 0;
  let openMs = 0;
  starts.forEach((startMs, i) => {
    openMs += Math.max(0, Math.min(toMs, startMs + latencies[i]!) - Math.max(fromMs, startMs));
  });
  return openMs / (toMs - fromMs);
}

/**
 * While those who stay long gather, D's steps take ever more rows, and answers get longer though nothing piles up: what
 * waits shows in the time to the first token.
 */
const stayLong = (collector: Collector, untilMs: number): boolean => collector.stayMs > LONG_STAY * untilMs;

interface Latencies {
  count: number;
  meanMs: number;
  /** Square of the mean's standard error. */
  error: number;
}

/** Of conversations' first turns that came in [fromMs, toMs): later ones are longer by themselves, and come late in a short run. */
function firstTurns(
  collector: Collector,
  column: 'ttftMs' | 'latencyMs',
  fromMs: number,
  toMs: number,
): Latencies {
  const starts = collector.column('startMs');
  const turns = collector.column('turn');
  const latencies = collector.column(column);
  // Welford's: sums of squares of long times lose their last digits.
  let [count, meanMs, squares] = [0, 0, 0];
  starts.forEach((startMs, i) => {
    if (startMs < fromMs || startMs >= toMs || turns[i] !== 1) return;
    const off = latencies[i]! - meanMs;
    meanMs += off / ++count;
    squares += off * (latencies[i]! - meanMs);
  });
  return { count, meanMs, error: count > 1 ? squares / (count - 1) / count : 0 };
}

/** Of a few nothing is told. */
const isSlower = (before: Latencies, after: Latencies, leastMs: number): boolean =>
  Math.min(before.count, after.count) > 1 &&
  after.meanMs - before.meanMs > leastMs &&
  after.meanMs > NO_SLOWER * before.meanMs &&
  after.meanMs - before.meanMs > TOLD_APART * Math.sqrt(before.error + after.error);

/** Of the requests that have come by then. */
function shareOpen(starts: Float64Array, latencies: Float64Array, atMs: number): number {
  let [came, open] = [0, 0];
  starts.forEach((startMs, i) => {
    if (startMs > atMs) return;
    came++;
    if (startMs + latencies[i]! > atMs) open++;
  });
  return came > 0 ? open / came : 0;
}
