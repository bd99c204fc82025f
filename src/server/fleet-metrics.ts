/** What the router decided, and who came and went: metrics of the router's port. */
import { ROUTING_NAMES } from '../config/routing.ts';
import type { ClusterNotice } from '../fleet/notices.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import type { AutoscaleDecision } from '../router/autoscale/loop.ts';
import type { RoutedTurn } from '../router/decision.ts';
import { LATENCY_BUCKETS, TTFT_BUCKETS } from './engine-metric-names.ts';
import type { MetricKit } from './metric-kit.ts';

/** What an engine at work told before that is stale. */
const STALE_MS = 100;

const AGE_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15];

/** One that is not on its way out. */
export type StayingEngine = Pick<ThreadEngine, 'role' | 'combined' | 'ended'>;

export class FleetMetrics {
  readonly #m: ReturnType<typeof define>;
  readonly #policies = new Set<string>(ROUTING_NAMES);

  constructor(kit: MetricKit) {
    this.#m = define(kit);
  }

  hear(notice: ClusterNotice): void {
    if (notice.kind === 'turn ended') {
      const { routed, ttftMs } = notice.result;
      if (routed) this.#routed(routed, ttftMs);
    } else if (notice.kind === 'joined') {
      this.#m.events('joined', 1);
      this.#m.start.observe(notice.startMs / 1000);
    } else if (notice.kind === 'left') {
      this.#m.events('left', 1);
      this.#m.drain.observe(notice.ms / 1000);
      this.#m.migrated.inc(notice.migrated.tokens);
      this.#m.lost.inc(notice.lost.tokens);
    } else if (notice.kind === 'dead') this.#m.events('ended', 1);
  }

  /** Those that stay, ended ones included. */
  setEngines(staying: readonly StayingEngine[]): void {
    const roles = staying.flatMap(({ role, combined, ended }) => (ended ? [] : [combined ? 'both' : role]));
    for (const role of ENGINE_ROLES) this.#m.engines(role, roles.filter((each) => each === role).length);
  }

  decided({ roles }: AutoscaleDecision): void {
    this.#m.wanted('prefill', roles.prefill.want);
    this.#m.wanted('decode', roles.decode.want);
  }

  #routed({ policy, predictedTtftMs, candidates }: RoutedTurn, ttftMs: number): void {
    this.#m.decisions(this.#policies.has(policy) ? policy : 'mix', 1);
    if (predictedTtftMs !== null) this.#m.predictionError.observe(Math.abs(ttftMs - predictedTtftMs) / 1000);
    // A policy that does not look at load has nobody tell it.
    if (candidates.every(({ running }) => running === null)) return;
    for (const { running, waiting, ageMs } of candidates) {
      if (ageMs === null) this.#m.stale.inc(1);
      // What an engine without work told last stays true.
      if (ageMs === null || (running === 0 && waiting === 0)) continue;
      this.#m.age.observe(ageMs / 1000);
      if (ageMs > STALE_MS) this.#m.stale.inc(1);
    }
  }
}

const ROLES = ['prefill', 'decode'] as const;
/** An engine that does both is no more of one than of the other. */
const ENGINE_ROLES = [...ROLES, 'both'] as const;

function define(kit: MetricKit) {
  return {
    decisions: kit.counters<string>(
      'kvferry:router_decisions_total',
      'Turns that were routed, by policy.',
      'policy',
      [...ROUTING_NAMES, 'mix'],
    ),
    predictionError: kit.histogram(
      'kvferry:router_ttft_prediction_error_seconds',
      'How far the predicted time to the first token was from the one that came true.',
      TTFT_BUCKETS,
    ),
    age: kit.histogram(
      'kvferry:router_signal_age_seconds',
      'Age of what a candidate at work had told, at each decision by it.',
      AGE_BUCKETS,
    ),
    stale: kit.counter(
      'kvferry:router_stale_signals_total',
      `Candidates at a decision whose load was older than ${STALE_MS} ms though they were at work, or not told yet.`,
    ),
    engines: kit.gauges('kvferry:fleet_engines', 'Engines that may get turns.', 'role', ENGINE_ROLES),
    events: kit.counters('kvferry:fleet_events_total', 'Engines that came and went.', 'event', [
      'joined',
      'left',
      'ended',
    ]),
    start: kit.histogram(
      'kvferry:fleet_start_seconds',
      "From a joining engine's start to its readiness.",
      LATENCY_BUCKETS,
    ),
    drain: kit.histogram(
      'kvferry:fleet_drain_seconds',
      "From a leaving engine's last chance of a turn to its end.",
      LATENCY_BUCKETS,
    ),
    migrated: kit.counter(
      'kvferry:fleet_migrated_kv_tokens_total',
      'Tokens held for next turns that another engine took over.',
    ),
    lost: kit.counter(
      'kvferry:fleet_lost_kv_tokens_total',
      'Tokens held for next turns that were lost with a leaving engine.',
    ),
    wanted: kit.gauges('kvferry:autoscale_desired_engines', 'What --autoscale wants.', 'role', ROLES),
  };
}
