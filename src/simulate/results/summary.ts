/** Sums up the runs of one arm, one for each seed, for a report. */
import { seatsOf } from '../../fleet/options.ts';
import { type ServingRole, servingRole } from '../../fleet/serving-role.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import { describeSamples } from '../../measure/statistics.ts';
import { sum, sumOf } from '../../sum.ts';
import type { StoreOutcome } from '../store.ts';
import type { TierOutcome } from '../tiers.ts';
import { tpotOf } from './collector.ts';
import type { EngineOutcome, RunOutcome } from './outcome.ts';

/** Limits that a good request keeps, ms; null: no limit. */
export interface Slo {
  ttftMs: number | null;
  tpotMs: number | null;
}

type Column = keyof RunOutcome['columns'];

export function summarise(
  { label, options }: { label: string; options: ClusterOptions },
  runs: readonly RunOutcome[],
  slo: Slo,
): SimulatedArm {
  const [first] = runs as [RunOutcome];
  const total = (key: Column): number => sumOf(runs, ({ columns }) => sum(columns[key]));
  const served = servedIn(runs, slo);
  const promptTokens = total('promptTokens');
  const localHitTokens = total('localHitTokens');
  const pulledTokens = total('pulledTokens');
  return {
    label,
    mode: options.mode,
    routing: options.routing?.name ?? 'round-robin',
    threshold: options.connector.nixl.recomputeThreshold,
    seeds: runs.length,
    simulated_ms: simulatedMsOf(runs),
    requests: served.requests,
    failed_requests: served.failed_requests,
    errors: errorsOf(runs),
    ttft_ms: served.ttft_ms,
    tpot_ms: served.tpot_ms,
    latency_ms: describeSamples(all(runs, 'latencyMs')),
    by_seed: runs.map((run) => seedFacts(run, runs.length === 1 ? served : servedIn([run], slo))),
    requests_per_second: served.requests_per_second,
    output_tokens_per_second: perSecondOf(runs, total('outputTokens')),
    goodput: served.goodput,
    prompt_tokens: promptTokens,
    local_hit_tokens: localHitTokens,
    pulled_tokens: pulledTokens,
    computed_tokens: promptTokens - localHitTokens - pulledTokens,
    output_tokens: total('outputTokens'),
    bytes_p_to_d: total('bytesPToD'),
    bytes_d_to_p: total('bytesDToP'),
    engine_hours: sumOf(runs, paidMs) / 3_600_000,
    transfers: transfersOf(runs),
    preemptions: sumOf(runs, ({ engines }) => sumOf(engines, (engine) => engine.preemptions)),
    verdict: worstOf(runs.map(({ verdict }) => verdict)),
    stopped: stoppedOf(runs),
    scaling: scalingOf(runs, seatsOf(options).length),
    faults: faultsOf(runs),
    store: storeOf(runs),
    engines: first.engines.map(engineFacts),
    links: first.links.map(({ from, to, bytes, busyMs }) => ({ from, to, bytes, busy_ms: busyMs })),
  };
}

/** Figures that are reported for all runs together and for each. */
function servedIn(runs: readonly RunOutcome[], slo: Slo) {
  const requests = sumOf(runs, ({ count }) => count);
  return {
    requests,
    failed_requests: sumOf(runs, ({ failed }) => failed),
    ttft_ms: describeSamples(all(runs, 'ttftMs')),
    tpot_ms: describeSamples(runs.flatMap(tpots)),
    requests_per_second: perSecondOf(runs, requests),
    goodput: goodputOf(runs, slo),
  };
}

const seedFacts = (
  { verdict }: RunOutcome,
  { goodput, ...served }: ReturnType<typeof servedIn>,
): SimulatedArm['by_seed'][number] => ({
  ...served,
  good_share: goodput?.share ?? null,
  verdict: verdict.word,
});

const all = (runs: readonly RunOutcome[], key: Column): number[] =>
  runs.flatMap(({ columns }) => [...columns[key]]);

const simulatedMsOf = (runs: readonly RunOutcome[]): number =>
  sumOf(runs, ({ fromMs, lastEndMs }) => Math.max(0, lastEndMs - fromMs));

function perSecondOf(runs: readonly RunOutcome[], n: number): number {
  const simulatedMs = simulatedMsOf(runs);
  return simulatedMs > 0 ? (1000 * n) / simulatedMs : 0;
}

/** Engine time that is paid for, ms: start-ups count, finished or not; time before the requests that count does not. */
const paidMs = ({ engines, startingMs, fromMs, endMs }: RunOutcome): number =>
  startingMs +
  sumOf(engines, ({ begunMs, endedMs }) => Math.max(0, (endedMs ?? endMs) - Math.max(fromMs, begunMs)));

function tpots({ columns, count }: RunOutcome): number[] {
  const found: number[] = [];
  for (let i = 0; i < count; i++) {
    const tpotMs = tpotOf(columns, i);
    if (tpotMs !== null) found.push(tpotMs);
  }
  return found;
}

function errorsOf(runs: readonly RunOutcome[]): SimulatedArm['errors'] {
  const errors = new Map<string, number>();
  for (const [message, n] of runs.flatMap((run) => run.errors))
    errors.set(message, (errors.get(message) ?? 0) + n);
  return [...errors].map(([message, count]) => ({ message, count }));
}

function goodputOf(runs: readonly RunOutcome[], { ttftMs, tpotMs }: Slo): SimulatedArm['goodput'] {
  if (ttftMs === null && tpotMs === null) return null;
  let good = 0;
  for (const { columns, count } of runs)
    for (let i = 0; i < count; i++)
      if (columns.ttftMs[i]! <= (ttftMs ?? Infinity) && (tpotOf(columns, i) ?? 0) <= (tpotMs ?? Infinity))
        good++;
  // Requests that still waited when a run was given up count as asked: the fleet failed them.
  const asked = sumOf(runs, ({ count, failed, stopped }) => count + failed + (stopped?.open ?? 0));
  const share = asked > 0 ? good / asked : 0;
  return { slo_ttft_ms: ttftMs, slo_tpot_ms: tpotMs, share, requests_per_second: perSecondOf(runs, good) };
}

function transfersOf(runs: readonly RunOutcome[]): Record<string, number> {
  const total: Record<string, number> = {};
  for (const [outcome, n] of runs.flatMap(({ transfers }) => Object.entries(transfers)))
    if (n > 0) total[outcome] = (total[outcome] ?? 0) + n;
  return total;
}

const worstOf = (verdicts: readonly SimulatedArm['verdict'][]): SimulatedArm['verdict'] =>
  verdicts.reduce((worst, verdict) => (verdict.score > worst.score ? verdict : worst));

/** null: the engines at the start, `atStart` of them, served all along, and nothing could have changed that. */
function scalingOf(runs: readonly RunOutcome[], atStart: number): SimulatedArm['scaling'] {
  const [first] = runs as [RunOutcome];
  if (runs.every(({ scaling }) => scaling.stayed === null && scaling.events.length === 0)) return null;
  const happened = (which: string): number =>
    sumOf(runs, ({ scaling }) => scaling.events.filter(({ event }) => event === which).length);
  const ms = sumOf(runs, ({ endMs }) => endMs);
  const served = (as: ServingRole): number => {
    const total = (value: (engine: EngineOutcome, run: RunOutcome) => number): number =>
      sumOf(runs, (run) =>
        sumOf(run.engines, (engine) => (servingRole(engine) === as ? value(engine, run) : 0)),
      );
    // If nothing takes time, count the engines at the end.
    if (ms === 0) return total(({ endedMs }) => (endedMs === null ? 1 : 0)) / runs.length;
    return total(({ endedMs, servesMs }, { endMs }) => (endedMs ?? endMs) - servesMs) / ms;
  };
  return {
    decisions: sumOf(runs, ({ scaling }) => scaling.decisions),
    stayed: first.scaling.stayed,
    joined: happened('joined'),
    left: happened('left'),
    died: happened('died'),
    replaced: sumOf(runs, ({ engines }) => engines.length - atStart) - happened('joined'),
    mean_engines: { prefill: served('prefill'), decode: served('decode'), both: served('both') },
    migrated_tokens: sumOf(runs, ({ scaling }) => scaling.migratedTokens),
    lost_tokens: sumOf(runs, ({ scaling }) => scaling.lostTokens),
    recomputed_tokens: sumOf(runs, ({ scaling }) => scaling.recomputedTokens),
    events: first.scaling.events.map(({ atMs, event, engineId, role: ofRole, detail }) => ({
      ...{ at_ms: atMs, event, engine_id: engineId, role: ofRole, detail },
    })),
  };
}

function stoppedOf(runs: readonly RunOutcome[]): SimulatedArm['stopped'] {
  const stopped = runs.find((run) => run.stopped)?.stopped;
  return stopped ? { at_ms: stopped.atMs, open: stopped.open } : null;
}

function faultsOf(runs: readonly RunOutcome[]): SimulatedArm['faults'] {
  const times = new Map<string, number>();
  for (const [kind, n] of runs.flatMap(({ faults }) => faults ?? []))
    times.set(kind, (times.get(kind) ?? 0) + n);
  return runs.some(({ faults }) => faults) ? Object.fromEntries(times) : null;
}

function storeOf(runs: readonly RunOutcome[]): SimulatedArm['store'] {
  const [first] = runs as [RunOutcome];
  if (!first.store) return null;
  const total = (value: (store: StoreOutcome) => number): number => sumOf(runs, ({ store }) => value(store!));
  const { slots, blocks, blockBytes } = first.store;
  return {
    ...{ slots, blocks, block_bytes: blockBytes },
    lookups: total(({ counters }) => counters.lookups),
    hits: total(({ counters }) => counters.hits),
    stored: total(({ counters }) => counters.stored),
    evicted: total(({ counters }) => counters.evicted),
    refused: total(({ counters }) => counters.refused),
    loads: total(({ engines }) => engines.loads),
    failed_loads: total(({ engines }) => engines.failedLoads),
    loaded_tokens: total(({ engines }) => engines.loadedTokens),
    load_ms: total(({ engines }) => engines.loadMs),
    save_ms: total(({ engines }) => engines.saveMs),
    bytes_to_p: total(({ bytesToP }) => bytesToP),
    bytes_to_d: total(({ bytesToD }) => bytesToD),
    bytes_saved: total(({ engines }) => engines.savedBytes),
    two_hop_bytes: total(({ engines }) => engines.twoHopBytes),
    unanswered: total(({ engines }) => engines.unanswered),
    tiers: tiersOf(runs.map(({ store }) => store!)),
  };
}

function tiersOf(stores: readonly StoreOutcome[]): NonNullable<SimulatedArm['store']>['tiers'] {
  const [{ blocks, tiers: below }] = stores as [StoreOutcome];
  const total = (value: (store: StoreOutcome) => number): number => sumOf(stores, value);
  const raised = total(({ counters }) => counters.raised);
  const raisedFar = total(({ counters }) => counters.raisedFar);
  const lower = below.map(({ medium, blocks }, i) => {
    const of = (value: (counters: TierOutcome['counters']) => number): number =>
      total(({ tiers }) => value(tiers[i]!.counters));
    return {
      ...{ tier: medium, blocks, hits: i === 0 ? raised - raisedFar : raisedFar },
      ...{ written: of(({ written }) => written), left_out: of(({ leftOut }) => leftOut) },
      expired: medium === 'folder' ? of(({ expired = 0 }) => expired) : null,
      ...{ read_ms: of(({ readMs }) => readMs), write_ms: of(({ writeMs }) => writeMs) },
    };
  });
  const cameUp = total(({ tiers }) => sumOf(tiers, ({ counters: { read } }) => read));
  const memory = {
    ...{ tier: 'memory' as const, blocks, hits: total(({ counters }) => counters.hits) - raised },
    ...{ written: total(({ counters }) => counters.stored) - cameUp, left_out: 0, expired: null },
    ...{ read_ms: 0, write_ms: 0 },
  };
  return [memory, ...lower];
}

function engineFacts(engine: EngineOutcome): SimulatedArm['engines'][number] {
  const { busy = 0, running = 0, waiting = 0, kvUsed = 0 } = engine.mean ?? {};
  return {
    engine_id: engine.engineId,
    ...{ role: engine.role, combined: engine.combined },
    ...{ serves_ms: engine.servesMs, ended_ms: engine.endedMs },
    ...{ steps: engine.steps, prefill_tokens: engine.prefillTokens, decode_rows: engine.decodeRows },
    preemptions: engine.preemptions,
    ...{ busy, running, waiting, kv_used: kvUsed },
    load: engine.load.map((slice) => ({
      start_ms: slice.startMs,
      end_ms: slice.endMs,
      running: slice.running,
      waiting: slice.waiting,
      kv_used: slice.kvUsed,
      busy: slice.busy,
    })),
  };
}
