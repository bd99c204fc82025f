/** Whether a fleet keeps up with those who come: by how many requests are under way, and how many conversations when nobody comes any more. */
import type { SimulatedArm } from '../measure/simulation-report.ts';
import type { Collector } from './collector.ts';

/** A backlog that grows evenly from nothing has 5/3 of its middle third's mean in its last third. */
const EVEN_GROWTH = 2 / 3;
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
  const growth = clamp((last / Math.max(1, middle) - 1) / EVEN_GROWTH);
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
