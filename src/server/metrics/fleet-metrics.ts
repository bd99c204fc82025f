/** Metrics of the router's port about routing decisions, engines joining and leaving, and autoscaling. */
import { routingNames } from '../../config/routing.ts';
import type { ClusterNotice } from '../../fleet/notices.ts';
import { SERVING_ROLES, servingRole } from '../../fleet/serving-role.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import type { AutoscaleDecision } from '../../router/autoscale/loop.ts';
import type { RoutedTurn } from '../../router/decision.ts';
import { LATENCY_BUCKETS, TTFT_BUCKETS } from './engine-metric-names.ts';
import type { MetricKit } from './metric-kit.ts';

/** A load report of a busy engine older than this is stale. */
const STALE_MS = 100;

const AGE_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15];

/** An engine that is not leaving the fleet. */
export type StayingEngine = Pick<ThreadEngine, 'role' | 'combined' | 'ended'>;

export class FleetMetrics {
  readonly #m: ReturnType<typeof define>;
  readonly #policies = new Set(routingNames());

  constructor(kit: MetricKit) {
    this.#m = define(kit);
  }

  hear(notice: ClusterNotice): void {
    if (notice.kind === 'turn') {
      if (notice.routed) this.#routed(notice.routed);
    } else if (notice.kind === 'turn ended') this.#predicted(notice.result);
    else if (notice.kind === 'turn failed') this.#predicted(notice);
    else if (notice.kind === 'joined') {
      this.#m.events('joined', 1);
      this.#m.start.observe(notice.startMs / 1000);
    } else if (notice.kind === 'left') {
      this.#m.events('left', 1);
      this.#m.drain.observe(notice.ms / 1000);
      this.#m.migrated.inc(notice.migrated.tokens);
      this.#m.lost.inc(notice.lost.tokens);
    } else if (notice.kind === 'dead') this.#m.events('ended', 1);
  }

  /** `staying` includes engines that have ended; those are not counted. */
  setEngines(staying: readonly StayingEngine[]): void {
    const roles = staying.flatMap(({ role, combined, ended }) =>
      ended ? [] : [servingRole({ role, combined })],
    );
    for (const role of SERVING_ROLES) this.#m.engines(role, roles.filter((each) => each === role).length);
  }

  decided({ roles }: AutoscaleDecision): void {
    this.#m.wanted('prefill', roles.prefill.want);
    this.#m.wanted('decode', roles.decode.want);
  }

  #predicted({ routed, ttftMs }: { routed?: RoutedTurn | null; ttftMs: number | null }): void {
    const predicted = routed?.predictedTtftMs ?? null;
    if (predicted !== null && ttftMs !== null)
      this.#m.predictionError.observe(Math.abs(ttftMs - predicted) / 1000);
  }

  #routed({ policy, candidates }: RoutedTurn): void {
    this.#m.decisions(this.#policies.has(policy) ? policy : 'mix', 1);
    // A policy that ignores load gets no load reports.
    if (candidates.every(({ running }) => running === null)) return;
    for (const { running, waiting, ageMs } of candidates) {
      if (ageMs === null) this.#m.stale.inc(1);
      // The last report of an idle engine stays valid.
      if (ageMs === null || (running === 0 && waiting === 0)) continue;
      this.#m.age.observe(ageMs / 1000);
      if (ageMs > STALE_MS) this.#m.stale.inc(1);
    }
  }
}

const ROLES = ['prefill', 'decode'] as const;

function define(kit: MetricKit) {
  return {
    decisions: kit.counters<string>('kvferry:router_decisions_total', 'Routed turns, by policy.', 'policy', [
      ...routingNames(),
      'mix',
    ]),
    predictionError: kit.histogram(
      'kvferry:router_ttft_prediction_error_seconds',
      'Absolute difference between predicted and actual time to first token.',
      TTFT_BUCKETS,
    ),
    age: kit.histogram(
      'kvferry:router_signal_age_seconds',
      "Age of a busy candidate's load report at each decision that used it.",
      AGE_BUCKETS,
    ),
    stale: kit.counter(
      'kvferry:router_stale_signals_total',
      `Candidates at a decision that were busy with a load report older than ${STALE_MS} ms, or had sent no report yet.`,
    ),
    engines: kit.gauges('kvferry:fleet_engines', 'Engines that can receive turns.', 'role', SERVING_ROLES),
    events: kit.counters('kvferry:fleet_events_total', 'Engines that joined, left or ended.', 'event', [
      'joined',
      'left',
      'ended',
    ]),
    start: kit.histogram(
      'kvferry:fleet_start_seconds',
      'Time from the start of a joining engine until it is ready.',
      LATENCY_BUCKETS,
    ),
    drain: kit.histogram(
      'kvferry:fleet_drain_seconds',
      'Time from when a leaving engine can receive no more turns until it has ended.',
      LATENCY_BUCKETS,
    ),
    migrated: kit.counter(
      'kvferry:fleet_migrated_kv_tokens_total',
      'Tokens that a leaving engine held for next turns and another engine took over.',
    ),
    lost: kit.counter(
      'kvferry:fleet_lost_kv_tokens_total',
      'Tokens that a leaving engine held for next turns and that were lost.',
    ),
    // Without an autoscaler nothing is wanted, which is not 0.
    wanted: kit.gauges<(typeof ROLES)[number]>(
      'kvferry:autoscale_desired_engines',
      'Engines that --autoscale wants. Absent before its first decision.',
      'role',
      [],
    ),
  };
}
