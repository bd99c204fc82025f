/** What is left of a run when its engines are gone: plain data, which may cross threads. */
import type { FaultKind } from '../faults/schedule.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { Collector, ServedColumns } from './collector.ts';
import type { SimulatedEngine } from './engine.ts';
import type { FleetEvent } from './fleet-event.ts';
import type { LoadSlice } from './meter.ts';
import { less, type StoreOutcome, storeSince } from './store.ts';
import { type Verdict, verdictOf } from './verdict.ts';

export interface EngineOutcome {
  engineId: string;
  role: EngineRole;
  combined: boolean;
  /** When its start began, when it served, and when it ended; null: it serves on. */
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
  /** How often an autoscaler decided. */
  decisions: number;
  /** Why it changed nothing when it last looked, or did not look; null: there is none, or it always did. */
  stayed: string | null;
  events: readonly FleetEvent[];
  migratedTokens: number;
  lostTokens: number;
  recomputedTokens: number;
}

export interface RunOutcome {
  /** Requests that ended well, a column for each of their values. */
  columns: Readonly<ServedColumns>;
  count: number;
  failed: number;
  errors: readonly (readonly [message: string, count: number])[];
  /** When what counts began, and of the last answer. */
  fromMs: number;
  lastEndMs: number;
  stopped: SimulatedRun['stopped'];
  /** Of the run, some of which may be after that. */
  endMs: number;
  verdict: Verdict;
  engines: readonly EngineOutcome[];
  /** That starts took which were not over at the end, all together, since what counts began. */
  startingMs: number;
  transfers: Readonly<Record<string, number>>;
  /** null: there was none. */
  store: StoreOutcome | null;
  links: readonly { from: string; to: string; bytes: number; busyMs: number }[];
  scaling: ScalingOutcome;
  /** By what happened; null: nothing was to. */
  faults: readonly (readonly [FaultKind, number])[] | null;
}

/** What a cluster counted of KV that moved. */
export type CountedKv = Pick<RunOutcome, 'transfers' | 'store'>;

export const countedKv = ({ transfers, store, engines }: SimulatedCluster): CountedKv => ({
  transfers: { ...transfers },
  store: store?.outcome(engines) ?? null,
});

/** A run that is over. */
export interface SimulatedRun {
  cluster: SimulatedCluster;
  collector: Collector;
  /** What was counted when a warm-up was over; null or absent: there was none. */
  warmedUp?: CountedKv | null;
  happened: ReadonlyMap<FaultKind, number> | null;
  /** It was given up, with so many requests under way; null: it came to its end. */
  stopped: { atMs: number; open: number } | null;
  /** Of a trace: when the last turn comes that waits for no other; null: the collector knows. */
  lastComesMs: number | null;
}

/**
 * One that was given up had more to do than it ever did, whatever the requests say that ended. `filledMs`: when the fleet had
 * filled; left out: nobody knows.
 */
export const verdictOfRun = (
  { collector, stopped, lastComesMs }: Omit<SimulatedRun, 'cluster' | 'happened' | 'warmedUp'>,
  filledMs: number | null = null,
): Verdict =>
  stopped
    ? { word: 'OVERLOADED', score: 1, growth: 1, unfinished: 1 }
    : verdictOf(collector, { lastComesMs, filledMs });

export function outcomeOf({ cluster, happened, warmedUp = null, ...run }: SimulatedRun): RunOutcome {
  const { fleet, clock, links } = cluster;
  const { collector, stopped } = run;
  const { decisions, stayed, events, migratedTokens, lostKv } = fleet;
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
    engines: cluster.engines.map(engineOutcome),
    startingMs: [...fleet.starting].reduce(
      (sum, { begunMs }) => sum + clock.now() - Math.max(begunMs, collector.fromMs),
      0,
    ),
    ...sinceThen(countedKv(cluster), warmedUp),
    links: links.use(),
    scaling: {
      ...{ decisions, stayed, events, migratedTokens },
      lostTokens: lostKv.lostTokens,
      recomputedTokens: lostKv.recomputedTokens,
    },
    faults: happened && [...happened],
  };
}

/** Bytes and tokens are of the requests that count: these are too. */
function sinceThen({ transfers, store }: CountedKv, then: CountedKv | null): CountedKv {
  if (!then) return { transfers, store };
  return { transfers: less(transfers, then.transfers), store: store && storeSince(store, then.store!) };
}

function engineOutcome(engine: SimulatedEngine): EngineOutcome {
  const { engineId, role, combined, startMs, meter, core } = engine;
  return {
    ...{ engineId, role, combined },
    begunMs: meter.startedMs - startMs,
    servesMs: meter.startedMs,
    endedMs: meter.endedMs,
    steps: meter.steps,
    prefillTokens: meter.prefillTokens,
    decodeRows: meter.decodeTokens,
    preemptions: core.inspect.stats().preemptions,
    mean: meter.mean(),
    load: meter.slices(),
  };
}
