/** Serves the same load with several policies, each on a fleet of its own, to the end: nothing but the policy differs. */
import type { RoutingName } from '../../config/routing.ts';
import { quantile } from '../../measure/statistics.ts';
import { sum } from '../../sum.ts';
import { Collector } from '../results/collector.ts';
import { simulateOnce } from '../run.ts';
import type { SimulationSettings } from '../settings.ts';
import { type LatencyPoint, LatencyWindow } from './latency.ts';
import { arrivalsUntil } from './load.ts';
import { type LiveSettings, TOKEN_IDS } from './settings.ts';
import { worldOf } from './world.ts';

export interface ComparedPolicy {
  policy: RoutingName;
  requests: number;
  failed: number;
  /** Quantiles of all TTFTs; null: no request was answered. */
  p50Ms: number | null;
  p99Ms: number | null;
  /** Shares of its prompt tokens: found at P, and pulled from D. */
  hit: number;
  pulled: number;
  /** When the last answer ended. */
  endMs: number;
  /** Requests under way when the run was given up; null: it ran to its end. */
  stopped: number | null;
  points: readonly LatencyPoint[];
}

export interface Comparison {
  settings: LiveSettings;
  seconds: number;
  policies: readonly ComparedPolicy[];
}

export interface CompareDeps {
  nextTask: SimulationSettings['nextTask'];
  signal: AbortSignal;
  /** `done`: policies that are done; `share`: progress of the current one, 0 to 1. */
  onProgress: (done: number, share: number) => void;
}

/** Conversations arrive for `seconds` seconds; all that began are served to their end. Throws ConfigError. */
export async function comparePolicies(
  settings: LiveSettings,
  policies: readonly RoutingName[],
  seconds: number,
  { nextTask, signal, onProgress }: CompareDeps,
): Promise<Comparison> {
  const compared: ComparedPolicy[] = [];
  const untilMs = 1000 * seconds;
  for (const routing of policies) {
    onProgress(compared.length, 0);
    const world = worldOf({ ...settings, routing });
    const { options } = world;
    const { thinkMs } = settings.load;
    const arrivals = (seed: number) => arrivalsUntil(settings.load, seed, untilMs);
    const collector = new Collector();
    const { stopped } = await simulateOnce(
      { label: routing, options, load: { kind: 'arrivals', arrivals, thinkMs } },
      {
        ...{ ...world, nextTask, signal, tokenIds: TOKEN_IDS },
        ...{ seed: settings.seed, seeds: 1, slo: { ttftMs: null, tpotMs: null } },
        onProgress: (_done, nowMs) => onProgress(compared.length, Math.min(1, nowMs / untilMs)),
      },
      settings.seed,
      collector,
    );
    compared.push(policyOf(routing, collector, stopped?.open ?? null));
  }
  return { settings, seconds, policies: compared };
}

function policyOf(policy: RoutingName, collector: Collector, stopped: number | null): ComparedPolicy {
  const { count, failed, lastEndMs } = collector;
  const ttfts = collector.column('ttftMs');
  const starts = collector.column('startMs');
  const latencies = collector.column('latencyMs');
  const window = new LatencyWindow();
  const ends = Array.from(starts, (startMs, i) => ({ endMs: startMs + latencies[i]!, ttftMs: ttfts[i]! }));
  for (const sample of ends.sort((a, b) => a.endMs - b.endMs)) window.add(sample);
  window.until(lastEndMs);
  const total = (key: Parameters<typeof collector.column>[0]): number => sum(collector.column(key));
  const prompt = Math.max(1, total('promptTokens'));
  return {
    ...{ policy, requests: count, failed },
    p50Ms: count > 0 ? quantile([...ttfts], 0.5) : null,
    p99Ms: count > 0 ? quantile([...ttfts], 0.99) : null,
    hit: total('localHitTokens') / prompt,
    pulled: total('pulledTokens') / prompt,
    ...{ endMs: lastEndMs, stopped, points: window.points },
  };
}
