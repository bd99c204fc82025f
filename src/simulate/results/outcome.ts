/**
 * What is left of a run when its engines are gone: plain data, which may cross threads. Times are on the virtual clock.
 */
import type { FaultKind } from '../../faults/schedule.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import type { SimulatedCluster } from '../cluster.ts';
import type { SimulatedEngine } from '../engines/engine.ts';
import type { LoadSlice } from '../engines/meter.ts';
import type { FleetEvent } from '../fleet-event.ts';
import { less, type StoreOutcome, storeSince } from '../store.ts';
import type { Collector, ServedColumns } from './collector.ts';
import { type Verdict, verdictOf } from './verdict.ts';

export interface EngineOutcome {
  engineId: string;
  role: EngineRole;
  combined: boolean;
  /** When its start-up began, when it began to serve, and when it ended; null: it still serves. */
  begunMs: number;
  servesMs: number;
  endedMs: number | null;
  steps: number;
  prefillTokens: number;
  decodeRows: number;
  preemptions: number;
  mean: Omit<LoadSlice, 'startMs' | 'endMs'> | null;
  load: LoadSlice[];
}

export interface ScalingOutcome {
  decisions: number;
  /** Why it last changed nothing, or has not decided; null: there is none, or it always changed something. */
  stayed: string | null;
  events: readonly FleetEvent[];
  migratedTokens: number;
  lostTokens: number;
  recomputedTokens: number;
}

export interface RunOutcome {
  /** Requests that succeeded, a column for each of their values. */
  columns: Readonly<ServedColumns>;
  count: number;
  failed: number;
  errors: readonly (readonly [message: string, count: number])[];
  /** When counting began, and when the last answer ended. */
  fromMs: number;
  lastEndMs: number;
  stopped: SimulatedRun['stopped'];
  /** End of the run, which may be after the last answer. */
  endMs: number;
  verdict: Verdict;
  engines: readonly EngineOutcome[];
  /** Time taken, since counting began, by start-ups that were not over at the end, all together. */
  startingMs: number;
  transfers: Readonly<Record<string, number>>;
  /** null: there was no store. */
  store: StoreOutcome | null;
  links: readonly { from: string; to: string; bytes: number; busyMs: number }[];
  scaling: ScalingOutcome;
  /** Number of faults by kind; null: none were planned. */
  faults: readonly (readonly [FaultKind, number])[] | null;
}

/** A cluster's counters at some moment. */
export interface Counted extends Pick<RunOutcome, 'transfers' | 'store' | 'links'> {
  /** By engine. */
  preemptions: ReadonlyMap<string, number>;
}

const counted = ({ transfers, store, engines, links }: SimulatedCluster): Counted => ({
  transfers: { ...transfers },
  store: store?.outcome(engines) ?? null,
  links: links.use(),
  preemptions: new Map(engines.map(({ engineId, core }) => [engineId, core.inspect.stats().preemptions])),
});

/** The warm-up has ended: returns what was counted during it. Meters begin again. */
export function warmedUp(cluster: SimulatedCluster): Counted {
  for (const { meter } of cluster.engines) meter.restart();
  return counted(cluster);
}

/** A run that is over. */
export interface SimulatedRun {
  cluster: SimulatedCluster;
  collector: Collector;
  /** Counters at the end of the warm-up; null or absent: there was none. */
  warmedUp?: Counted | null;
  happened: ReadonlyMap<FaultKind, number> | null;
  /** When it was given up, and with how many requests under way; null: it ran to its end. */
  stopped: { atMs: number; open: number } | null;
  /** For a trace: when the last turn would arrive if no answer took any time; null: the collector knows. */
  lastComesMs: number | null;
}

/**
 * A run that was given up is overloaded, whatever its finished requests say. `filledMs`: when the fleet had filled;
 * null: unknown.
 */
export const verdictOfRun = (
  { collector, stopped, lastComesMs }: Omit<SimulatedRun, 'cluster' | 'happened' | 'warmedUp'>,
  filledMs: number | null = null,
): Verdict =>
  stopped
    ? { word: 'OVERLOADED', score: 1, growth: 1, unfinished: 1 }
    : verdictOf(collector, { lastComesMs, filledMs });

export function outcomeOf({ cluster, happened, warmedUp: then = null, ...run }: SimulatedRun): RunOutcome {
  const { fleet, clock } = cluster;
  const { collector, stopped } = run;
  const { decisions, stayed, events, migratedTokens, lostKv } = fleet;
  const { preemptions, ...moved } = sinceThen(counted(cluster), then);
  return {
    columns: collector.columns(),
    count: collector.count,
    failed: collector.failed,
    errors: [...collector.errors],
    fromMs: collector.fromMs,
    lastEndMs: collector.lastEndMs,
    stopped,
    endMs: clock.now(),
    verdict: verdictOfRun(run),
    engines: cluster.engines.map((engine) => engineOutcome(engine, preemptions.get(engine.engineId)!)),
    startingMs: [...fleet.starting].reduce(
      (sum, { begunMs }) => sum + clock.now() - Math.max(begunMs, collector.fromMs),
      0,
    ),
    ...moved,
    scaling: {
      ...{ decisions, stayed, events, migratedTokens },
      lostTokens: lostKv.lostTokens,
      recomputedTokens: lostKv.recomputedTokens,
    },
    faults: happened && [...happened],
  };
}

/** Counters since the warm-up, as bytes and tokens are those of the requests that count. */
function sinceThen(now: Counted, then: Counted | null): Counted {
  if (!then) return now;
  const { transfers, store, links, preemptions } = now;
  return {
    transfers: less(transfers, then.transfers),
    store: store && storeSince(store, then.store!),
    links: links.map(({ from, to, bytes, busyMs }) => {
      const before = then.links.find((link) => link.from === from && link.to === to);
      return { from, to, bytes: bytes - (before?.bytes ?? 0), busyMs: busyMs - (before?.busyMs ?? 0) };
    }),
    preemptions: new Map([...preemptions].map(([id, n]) => [id, n - (then.preemptions.get(id) ?? 0)])),
  };
}

function engineOutcome(engine: SimulatedEngine, preemptions: number): EngineOutcome {
  const { engineId, role, combined, startMs, meter } = engine;
  return {
    ...{ engineId, role, combined },
    begunMs: meter.startedMs - startMs,
    servesMs: meter.startedMs,
    endedMs: meter.endedMs,
    steps: meter.steps,
    prefillTokens: meter.prefillTokens,
    decodeRows: meter.decodeTokens,
    preemptions,
    mean: meter.mean(),
    load: meter.slices(),
  };
}
