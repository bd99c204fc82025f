/** Whether a fleet keeps up with those who come: by how many requests are under way, and how many conversations when nobody comes any more. */
import type { SimulatedArm } from '../measure/simulation-report.ts';
import type { Collector } from './collector.ts';

/** A backlog that grows evenly from nothing has 5/3 of its middle third's mean in its last third. */
const EVEN_GROWTH = 2 / 3;
/** Latencies that differ by less are taken for the same. */
const NO_SLOWER = 1.05;
/** Standard errors that a difference of means must have to be told from chance. */
const TOLD_APART = 2;
/** Where half of all are left, the fleet serves half of what comes. */
const WORST_UNFINISHED = 1 / 2;
const WEIGHTS = { growth: 0.6, unfinished: 0.4 };

export type Verdict = SimulatedArm['verdict'];

/**
 * Requests that failed are not counted as under way. `lastComesMs`: when the last request of a trace comes that waits for no
 * other; those that are under way then count as unfinished, as conversations do elsewhere.
 */
export function verdictOf(collector: Collector, lastComesMs: number | null = null): Verdict {
  const { came, openAtLast, lastMs } = collector.conversations;
  // Clients who wait for each answer are never more than they are.
  const untilMs = lastComesMs ?? (came > 0 ? lastMs : collector.lastEndMs);
  const starts = collector.column('startMs');
  const latencies = collector.column('latencyMs');
  const middle = meanOpen(starts, latencies, untilMs / 3, (2 * untilMs) / 3);
  const last = meanOpen(starts, latencies, (2 * untilMs) / 3, untilMs);
  // Below one request nothing is a backlog.
  const open = (last / Math.max(1, middle) - 1) / EVEN_GROWTH;
  // More are under way while a fleet fills, too; but in a backlog each also takes longer than those before it.
  const firsts = (fromMs: number, toMs: number) => firstTurns(collector, fromMs, toMs);
  const slower = isSlower(firsts(untilMs / 3, (2 * untilMs) / 3), firsts((2 * untilMs) / 3, untilMs));
  const growth = slower ? clamp(open) : 0;
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

interface Latencies {
  count: number;
  meanMs: number;
  /** Square of the mean's standard error. */
  error: number;
}

/** Of conversations' first turns that came in [fromMs, toMs): later ones are longer by themselves, and come late in a short run. */
function firstTurns(collector: Collector, fromMs: number, toMs: number): Latencies {
  const starts = collector.column('startMs');
  const turns = collector.column('turn');
  const latencies = collector.column('latencyMs');
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
const isSlower = (before: Latencies, after: Latencies): boolean =>
  Math.min(before.count, after.count) > 1 &&
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
