import { beforeEach, expect, it } from 'vitest';
import type { ClusterNotice } from '../../src/fleet/notices.ts';
import type { AutoscaleDecision } from '../../src/router/autoscale/loop.ts';
import type { RoutedCandidate, RoutedTurn } from '../../src/router/decision.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { FleetMetrics, type StayingEngine } from '../../src/server/metrics/fleet-metrics.ts';
import { MetricKit } from '../../src/server/metrics/metric-kit.ts';

let kit: MetricKit;
let metrics: FleetMetrics;
beforeEach(() => {
  kit = new MetricKit({ model_name: 'nano' });
  metrics = new FleetMetrics(kit);
});

const candidate = (more: Partial<RoutedCandidate>): RoutedCandidate => ({
  ...{ engineId: 'decode-0', side: 'decode', inFlight: 0, running: 1, waiting: 0, ageMs: 5 },
  ...{ cachedTokens: null, score: null, best: null },
  ...more,
});
const decided = (routed: Partial<RoutedTurn>): RoutedTurn => ({
  ...{ policy: 'dynamo', way: 'pull', prefill: 'prefill-0', decode: 'decode-0', load: null, why: '' },
  ...{ predictedTtftMs: null, startMs: 0, endMs: 0, candidates: [] },
  ...routed,
});
const notice = {
  kind: 'turn',
  turnId: 'a#1',
  conversationId: 'a',
  turn: 1,
  promptTokenIds: [],
  atMs: 0,
} as const;
const turn = (routed: Partial<RoutedTurn>) => metrics.hear({ ...notice, routed: decided(routed) });
const value = async (name: string, labels = ''): Promise<number> => {
  const line = (await kit.text()).split('\n').find((each) => each.startsWith(`kvferry:${name}{${labels}`));
  return Number(line?.split(' ').at(-1));
};

it('routing decisions are counted by policy, with all mixes as one', async () => {
  turn({});
  turn({ policy: 'least-request:1,prefix-cache:2' });
  turn({});
  // Refused, or its engines ended before it began.
  metrics.hear({ ...notice, routed: null });
  expect(await value('router_decisions_total', 'policy="dynamo"')).toBe(2);
  expect(await value('router_decisions_total', 'policy="mix"')).toBe(1);
  expect(await value('router_decisions_total', 'policy="random"')).toBe(0);
});

it('the TTFT prediction error is the absolute difference from the measured TTFT', async () => {
  const ended = (predictedTtftMs: number | null) => {
    const result = { ttftMs: 50, routed: decided({ predictedTtftMs }) } as TurnResult;
    metrics.hear({ kind: 'turn ended', result });
  };
  const aborted = (ttftMs: number | null) => {
    const failed = { conversationId: 'a', turn: 1, routed: decided({ predictedTtftMs: 30 }), ttftMs };
    metrics.hear({ kind: 'turn failed', ...failed, outcome: 'aborted' });
  };
  ended(80);
  ended(null);
  aborted(50);
  aborted(null);
  expect(await value('router_ttft_prediction_error_seconds_sum')).toBeCloseTo(0.05);
  expect(await value('router_ttft_prediction_error_seconds_count')).toBe(2);
});

it("signals are stale if a busy candidate's are over 100 ms old, or if one of several is missing", async () => {
  turn({ candidates: [candidate({ ageMs: 101 }), candidate({ ageMs: 100 })] });
  expect(await value('router_stale_signals_total')).toBe(1);
  // The last report of an idle engine stays true, and a policy that ignores load gets none.
  turn({ candidates: [candidate({ running: 0, ageMs: 9000 })] });
  turn({ candidates: [candidate({ running: null, waiting: null, ageMs: null })] });
  expect(await value('router_stale_signals_total')).toBe(1);
  turn({ candidates: [candidate({}), candidate({ running: null, waiting: null, ageMs: null })] });
  expect(await value('router_stale_signals_total')).toBe(2);
  expect(await value('router_signal_age_seconds_count')).toBe(3);
});

it('joins, departures and deaths are counted, with start and drain times and migrated and lost KV', async () => {
  const member = { engineId: 'decode-1', role: 'decode', name: 'decode-1' } as const;
  const notices: ClusterNotice[] = [
    { kind: 'joined', ...member, startMs: 700, loadMs: 100, compileMs: 500 },
    {
      ...{ kind: 'left', ...member, ms: 250 },
      ...{ migrated: { holds: 2, tokens: 120 }, lost: { holds: 1, tokens: 30 }, ended: null },
    },
    { kind: 'dead', engineId: 'decode-0', role: 'decode', message: '', reason: '' },
  ];
  for (const notice of notices) metrics.hear(notice);
  for (const event of ['joined', 'left', 'ended'])
    expect(await value('fleet_events_total', `event="${event}"`)).toBe(1);
  expect(await value('fleet_start_seconds_sum')).toBe(0.7);
  expect(await value('fleet_drain_seconds_sum')).toBe(0.25);
  expect(await value('fleet_migrated_kv_tokens_total')).toBe(120);
  expect(await value('fleet_lost_kv_tokens_total')).toBe(30);
});

it('engines are wanted only once an autoscaler has decided', async () => {
  expect(await kit.text()).not.toContain('autoscale_desired_engines{');
  const roles = { prefill: { want: 1 }, decode: { want: 3 } };
  metrics.decided({ roles } as AutoscaleDecision);
  expect(await value('autoscale_desired_engines', 'role="decode"')).toBe(3);
});

it('engines are counted by role without those that ended, and combined ones as "both"', async () => {
  const engine = (role: 'prefill' | 'decode', more: Partial<StayingEngine> = {}): StayingEngine => ({
    ...{ role, combined: false, ended: null },
    ...more,
  });
  const both = engine('decode', { combined: true });
  const ended = engine('prefill', { ended: new Error('gone') });
  metrics.setEngines([engine('prefill'), ended, engine('decode'), engine('decode'), both]);
  const counts = () =>
    Promise.all(['prefill', 'decode', 'both'].map((role) => value('fleet_engines', `role="${role}"`)));
  expect(await counts()).toEqual([1, 2, 1]);
  metrics.setEngines([engine('decode')]);
  expect(await counts()).toEqual([0, 1, 0]);
});
