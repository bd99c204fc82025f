/** One way of serving a workload, simulated with each seed and summed up. */
import type { ClusterOptions } from '../fleet/types.ts';
import { type ClientOptions, serveConversations } from '../lab/multiturn/clients.ts';
import { serveTrace } from '../lab/replay/serve-trace.ts';
import type { SimulatedArm } from '../measure/simulation-report.ts';
import { describeSamples } from '../measure/statistics.ts';
import { TraceFeed } from '../workload/traces/feed.ts';
import type { TraceTokens } from '../workload/traces/tokens.ts';
import type { Segment, TraceTurn } from '../workload/traces/types.ts';
import type { BenchConversation } from '../workload/types.ts';
import { Answers } from './answers.ts';
import { SimulatedCluster, type SimulationSettings } from './cluster.ts';
import { Collector } from './collector.ts';
import { type Arriving, LoadTarget, type Served, serveArrivals } from './load.ts';
import { SegmentedTokens } from './segmented-tokens.ts';
import { serveTurns } from './trace-load.ts';
import { verdictOf } from './verdict.ts';

/** Who asks. */
export type Load =
  | {
      kind: 'clients';
      conversations: readonly BenchConversation[];
      clients: Omit<ClientOptions, 'now' | 'sleep' | 'seed' | 'onRequest' | 'round' | 'auditor' | 'signal'>;
    }
  | { kind: 'trace'; turns: readonly TraceTurn[]; tokens: TraceTokens }
  | { kind: 'arrivals'; arrivals: (seed: number) => Iterable<Arriving>; thinkMs: number };

export interface SimulatedArmPlan {
  label: string;
  options: ClusterOptions;
  load: Load;
}

export interface SimulationWorld extends Omit<SimulationSettings, 'options' | 'answers'> {
  /** Generated ids lie between the two; the second excluded. */
  tokenIds: readonly [lowest: number, end: number];
  seed: number;
  seeds: number;
  slo: { ttftMs: number | null; tpotMs: number | null };
  signal: AbortSignal;
  onProgress: (done: number, nowMs: number) => void;
}

export interface SimulatedRun {
  cluster: SimulatedCluster;
  collector: Collector;
}

/** In memory: while a file is read time would go on. */
async function* inOrder(turns: readonly TraceTurn[]): AsyncGenerator<TraceTurn> {
  yield* turns;
}

/** Resolves when all was answered. `fleet`: simulated or not. */
export function serveLoad(
  fleet: Served,
  load: Load,
  collector: Collector,
  { seed, signal }: { seed: number; signal: AbortSignal },
): Promise<unknown> {
  if (load.kind === 'trace' && fleet instanceof SimulatedCluster) {
    const tokensOf = (segments: readonly Segment[]) => SegmentedTokens.of(segments, load.tokens);
    return serveTurns(fleet, new TraceFeed(inOrder(load.turns)), tokensOf, collector);
  }
  if (load.kind === 'trace')
    return serveTrace(new LoadTarget(fleet, collector), new TraceFeed(inOrder(load.turns)), {
      ...{ round: 1, tokens: load.tokens, signal },
      now: () => fleet.clock.now(),
      sleep: (ms, until) => fleet.clock.sleep(ms, until),
      onRequest() {},
    });
  if (load.kind === 'arrivals')
    return serveArrivals(fleet, load.arrivals(seed), collector, { thinkMs: load.thinkMs, failover: false });
  return serveConversations(new LoadTarget(fleet, collector), load.conversations, {
    ...load.clients,
    ...{ round: 1, auditor: null, seed, signal },
    now: () => fleet.clock.now(),
    sleep: (ms) => fleet.clock.sleep(ms),
    onRequest() {},
  });
}

export async function simulateOnce(
  { options, load }: SimulatedArmPlan,
  world: SimulationWorld,
  seed: number,
  collector: Collector = new Collector(),
): Promise<SimulatedRun> {
  const answers = new Answers(...world.tokenIds);
  const cluster = new SimulatedCluster({ ...world, options, answers });
  const { signal } = world;
  await cluster.run(serveLoad(cluster, load, collector, { seed, signal }), (nowMs) => {
    signal.throwIfAborted();
    world.onProgress(collector.count, nowMs);
  });
  return { cluster, collector };
}

/** Seeds are those from world.seed on. */
export async function simulateArm(plan: SimulatedArmPlan, world: SimulationWorld): Promise<SimulatedArm> {
  const runs: SimulatedRun[] = [];
  for (let i = 0; i < world.seeds; i++) runs.push(await simulateOnce(plan, world, world.seed + i));
  return summarise(plan, runs, world.slo);
}

type Summed = 'promptTokens' | 'outputTokens' | 'localHitTokens' | 'pulledTokens' | 'bytesPToD' | 'bytesDToP';

function summarise(
  { label, options }: SimulatedArmPlan,
  runs: readonly SimulatedRun[],
  slo: SimulationWorld['slo'],
): SimulatedArm {
  const [first] = runs as [SimulatedRun];
  const all = (key: 'ttftMs' | 'latencyMs'): number[] =>
    runs.flatMap(({ collector }) => [...collector.column(key)]);
  const sum = (key: Summed): number =>
    runs.reduce((total, { collector }) => collector.column(key).reduce((n, value) => n + value, total), 0);
  const requests = runs.reduce((n, { collector }) => n + collector.count, 0);
  const simulatedMs = runs.reduce((n, { collector }) => n + collector.lastEndMs, 0);
  const perSecond = (n: number): number => (simulatedMs > 0 ? (1000 * n) / simulatedMs : 0);
  const errors = new Map<string, number>();
  for (const { collector } of runs)
    for (const [message, n] of collector.errors) errors.set(message, (errors.get(message) ?? 0) + n);
  const promptTokens = sum('promptTokens');
  const localHitTokens = sum('localHitTokens');
  const pulledTokens = sum('pulledTokens');
  return {
    label,
    mode: options.mode,
    routing: options.routing?.name ?? 'round-robin',
    threshold: options.connector.nixl.recomputeThreshold,
    seeds: runs.length,
    simulated_ms: simulatedMs,
    requests,
    failed_requests: runs.reduce((n, { collector }) => n + collector.failed, 0),
    errors: [...errors].map(([message, count]) => ({ message, count })),
    ttft_ms: describeSamples(all('ttftMs')),
    tpot_ms: describeSamples(runs.flatMap(({ collector }) => tpots(collector))),
    latency_ms: describeSamples(all('latencyMs')),
    mean_ttft_ms_by_seed: runs.map(({ collector }) => meanOf(collector.column('ttftMs'))),
    requests_per_second: perSecond(requests),
    output_tokens_per_second: perSecond(sum('outputTokens')),
    goodput: goodputOf(runs, slo, perSecond),
    prompt_tokens: promptTokens,
    local_hit_tokens: localHitTokens,
    pulled_tokens: pulledTokens,
    computed_tokens: promptTokens - localHitTokens - pulledTokens,
    output_tokens: sum('outputTokens'),
    bytes_p_to_d: sum('bytesPToD'),
    bytes_d_to_p: sum('bytesDToP'),
    engine_hours: runs.reduce((hours, { cluster }) => hours + engineHours(cluster), 0),
    transfers: transfersOf(runs),
    verdict: worstOf(runs.map(({ collector }) => verdictOf(collector))),
    engines: first.cluster.engines.map(engineFacts),
    links: first.cluster.links
      .use()
      .map(({ from, to, bytes, busyMs }) => ({ from, to, bytes, busy_ms: busyMs })),
  };
}

const meanOf = (values: Float64Array): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;

function tpots(collector: Collector): number[] {
  const found: number[] = [];
  for (let i = 0; i < collector.count; i++) {
    const tpotMs = collector.tpotMs(i);
    if (tpotMs !== null) found.push(tpotMs);
  }
  return found;
}

function goodputOf(
  runs: readonly SimulatedRun[],
  { ttftMs, tpotMs }: SimulationWorld['slo'],
  perSecond: (n: number) => number,
): SimulatedArm['goodput'] {
  if (ttftMs === null && tpotMs === null) return null;
  let good = 0;
  let asked = 0;
  for (const { collector } of runs) {
    asked += collector.count + collector.failed;
    const ttfts = collector.column('ttftMs');
    for (let i = 0; i < collector.count; i++)
      if (ttfts[i]! <= (ttftMs ?? Infinity) && (collector.tpotMs(i) ?? 0) <= (tpotMs ?? Infinity)) good++;
  }
  const share = asked > 0 ? good / asked : 0;
  return { slo_ttft_ms: ttftMs, slo_tpot_ms: tpotMs, share, requests_per_second: perSecond(good) };
}

const engineHours = ({ engines, clock }: SimulatedCluster): number =>
  engines.reduce((sum, { meter }) => sum + (meter.endedMs ?? clock.now()) - meter.startedMs, 0) / 3_600_000;

function transfersOf(runs: readonly SimulatedRun[]): Record<string, number> {
  const total: Record<string, number> = {};
  for (const { cluster } of runs)
    for (const [outcome, n] of Object.entries(cluster.transfers))
      if (n > 0) total[outcome] = (total[outcome] ?? 0) + n;
  return total;
}

const worstOf = (verdicts: readonly SimulatedArm['verdict'][]): SimulatedArm['verdict'] =>
  verdicts.reduce((worst, verdict) => (verdict.score > worst.score ? verdict : worst));

function engineFacts({
  engineId,
  role,
  combined,
  meter,
  core,
}: SimulatedCluster['engines'][number]): SimulatedArm['engines'][number] {
  const { busy = 0, running = 0, waiting = 0, kvUsed = 0 } = meter.mean() ?? {};
  return {
    engine_id: engineId,
    ...{
      role,
      combined,
      steps: meter.steps,
      prefill_tokens: meter.prefillTokens,
      decode_rows: meter.decodeTokens,
    },
    preemptions: core.inspect.stats().preemptions,
    ...{ busy, running, waiting, kv_used: kvUsed },
    load: meter.slices().map((slice) => ({
      start_ms: slice.startMs,
      end_ms: slice.endMs,
      running: slice.running,
      waiting: slice.waiting,
      kv_used: slice.kvUsed,
      busy: slice.busy,
    })),
  };
}
