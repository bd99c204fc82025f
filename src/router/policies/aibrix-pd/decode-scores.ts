/**
 * AIBrix's decode scorers and the three checks before them (pkg/plugins/gateway/algorithms/pd/decode_scorer.go,
 * pd_disaggregation.go). Pure; the lowest score is best.
 */
import { leastOf, maxOf, minOf } from '../pick.ts';
import type { AibrixPdParameters } from './config.ts';

export interface DecodeFacts {
  engineId: string;
  /** `running`: D's requests, those that it reported plus those on their way to it. `pending`: only the latter. */
  running: number;
  pending: number;
  /** Whether it has reported how many requests it runs. */
  hasMetrics: boolean;
  /** Generated tokens per second; ended requests per second. */
  throughput: number;
  drainRate: number;
  /** Free share of its KV, 0 to 100. */
  freePercent: number;
}

/** A whole number, but at least 0.1. `usage`: 0 to 1. */
export const freePercent = (usage: number): number => Math.max(0.1, Math.round(100 - 100 * usage));

const DECODE_STEP_MS = 20;
/** Keeps the step time finite after the throughput has faded to almost nothing. */
const LONGEST_STEP_MS = 1e9;
const CACHE_PRESSURE = 0.9;
const CACHE_PENALTY = 1.5;

/**
 * Scores in the order of `engines`. If some engines have metrics, one without scores 1 + pending, so that it is
 * neither ignored nor flooded.
 */
export function decodeScores(
  policy: AibrixPdParameters['decodeScorePolicy'],
  engines: readonly DecodeFacts[],
  weights: Pick<AibrixPdParameters, 'decodeLbWeightRunning' | 'decodeLbWeightThroughput'>,
): number[] {
  const most = (value: (engine: DecodeFacts) => number) => Math.max(1, maxOf(engines, value));
  const mostRunning = most(({ running }) => running);
  const mostThroughput = most(({ throughput }) => throughput);
  const mostFree = most((engine) => engine.freePercent);
  const someHaveMetrics = engines.some(({ hasMetrics }) => hasMetrics);
  const balanced = ({ running, throughput, freePercent: free }: DecodeFacts) =>
    (weights.decodeLbWeightRunning * (running / mostRunning) +
      weights.decodeLbWeightThroughput * (1 - throughput / mostThroughput)) /
    (free / mostFree);
  const conductor = ({ running, throughput, freePercent: free }: DecodeFacts) => {
    const stepMs = throughput > 0 ? Math.min(1000 / throughput, LONGEST_STEP_MS) : DECODE_STEP_MS;
    return stepMs * (1 + 1 / Math.max(running, 1)) * (1 - free / 100 > CACHE_PRESSURE ? CACHE_PENALTY : 1);
  };
  const leastRequest = ({ running }: DecodeFacts) => running;
  const score = { load_balancing: balanced, least_request: leastRequest, conductor }[policy];
  return engines.map((engine) =>
    someHaveMetrics && !engine.hasMetrics ? 1 + engine.pending : score(engine),
  );
}

/** The D to take without scoring, and why; null: none stands out. */
export function decodeFastPath(
  engines: readonly DecodeFacts[],
  limits: Pick<
    AibrixPdParameters,
    'decodeLoadImbalanceMinSpread' | 'decodeThroughputImbalanceMinSpread' | 'decodeScoreRatioThreshold'
  >,
  draw: () => number,
): { engineId: string; why: string } | null {
  const known = engines.filter(({ hasMetrics }) => hasMetrics);
  if (known.length === 0) return null;
  const least = (value: (engine: DecodeFacts) => number) => leastOf(known, value, draw)!.engineId;

  const running = ({ running: r }: DecodeFacts) => r;
  const requests = maxOf(known, running) - minOf(known, running);
  if (requests >= limits.decodeLoadImbalanceMinSpread) {
    return { engineId: least(running), why: `D's requests differ by ${requests}` };
  }
  // The lowest throughput wins, whether the engine is idle or slow.
  const throughput = ({ throughput: t }: DecodeFacts) => t;
  const tokens = maxOf(known, throughput) - minOf(known, throughput);
  if (tokens > limits.decodeThroughputImbalanceMinSpread) {
    return { engineId: least(throughput), why: `D's throughputs differ by ${tokens.toFixed(0)} tokens/s` };
  }
  if (known.length < engines.length || known.some(({ drainRate }) => drainRate <= 0)) return null;
  const drain = (engine: DecodeFacts) => engine.running / Math.max(engine.drainRate, 0.1);
  const slowest = maxOf(known, drain);
  const fastest = minOf(known, drain);
  if (fastest > 0 && slowest / fastest > limits.decodeScoreRatioThreshold) {
    return {
      engineId: least(drain),
      why: `D's drain times differ by a factor of ${(slowest / fastest).toFixed(1)}`,
    };
  }
  return null;
}
