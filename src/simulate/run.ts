/** Simulates one arm: one way of serving a workload, once for each seed. */
import { seatsOf } from '../fleet/options.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import { type ClientOptions, serveConversations } from '../lab/multiturn/clients.ts';
import { serveTrace } from '../lab/replay/serve-trace.ts';
import { TraceFeed } from '../workload/traces/feed.ts';
import type { TraceTokens } from '../workload/traces/tokens.ts';
import type { Segment, TraceTurn } from '../workload/traces/types.ts';
import type { BenchConversation } from '../workload/types.ts';
import { SimulatedCluster } from './cluster.ts';
import { Answers } from './engines/answers.ts';
import { type Arriving, LoadTarget, type Served, serveArrivals } from './load/load.ts';
import { type FaultPlan, StormyLoad } from './load/stormy-load.ts';
import { lastComesMs, serveTurns } from './load/trace-load.ts';
import { checkRun, checkSame } from './results/check-run.ts';
import { Collector } from './results/collector.ts';
import { type Counted, outcomeOf, type RunOutcome, type SimulatedRun, warmedUp } from './results/outcome.ts';
import type { Slo } from './results/summary.ts';
import type { SimulationSettings } from './settings.ts';
import { ListedTokens } from './tokens/listed-tokens.ts';
import { SegmentedTokens } from './tokens/segmented-tokens.ts';

/**
 * Where requests come from: clients that wait for each answer, a trace, or conversations that arrive however many wait.
 */
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

export interface SimulationWorld extends Omit<SimulationSettings, 'options' | 'answers' | 'faults'> {
  /** Range of generated token ids; `end` is excluded. */
  tokenIds: readonly [lowest: number, end: number];
  seed: number;
  seeds: number;
  slo: Slo;
  /** Absent or null: no faults. */
  faultPlan?: FaultPlan | null;
  signal: AbortSignal;
  onProgress: (done: number, nowMs: number) => Promise<void> | void;
}

/** Streams from memory, since time would pass while a file is read. */
async function* inOrder(turns: readonly TraceTurn[]): AsyncGenerator<TraceTurn> {
  yield* turns;
}

/** Reads everything ahead: a turn may stand anywhere behind the one that it follows, and all are in memory already. */
const feedOf = (turns: readonly TraceTurn[]): TraceFeed =>
  new TraceFeed(inOrder(turns), Number.POSITIVE_INFINITY);

/**
 * Serves the load and records its requests in `collector`. Resolves when all have ended. `fleet` may be simulated or
 * real.
 */
export function serveLoad(
  fleet: Served,
  load: Load,
  collector: Collector,
  { seed, signal, onWarmedUp }: { seed: number; signal: AbortSignal; onWarmedUp?: () => Promise<void> },
): Promise<unknown> {
  if (load.kind === 'trace' && fleet instanceof SimulatedCluster) {
    const tokensOf = (segments: readonly Segment[]) => SegmentedTokens.of(segments, load.tokens);
    return serveTurns(fleet, feedOf(load.turns), tokensOf, collector);
  }
  if (load.kind === 'trace')
    return serveTrace(new LoadTarget(fleet, collector), feedOf(load.turns), {
      ...{ round: 1, tokens: load.tokens, signal },
      now: () => fleet.clock.now(),
      sleep: (ms, until) => fleet.clock.sleep(ms, until),
      onRequest() {},
    });
  if (load.kind === 'arrivals')
    return serveArrivals(fleet, load.arrivals(seed), collector, {
      ...{ thinkMs: load.thinkMs, failover: false },
      // Real engines need token lists.
      ...(fleet instanceof SimulatedCluster && { listed: new ListedTokens(fleet.answers) }),
    });
  const { clients } = load;
  return serveConversations(new LoadTarget(fleet, collector, clients.warmupStep), load.conversations, {
    ...clients,
    ...{ round: 1, auditor: null, seed, signal },
    ...(onWarmedUp && { onWarmedUp }),
    now: () => fleet.clock.now(),
    sleep: (ms) => fleet.clock.sleep(ms),
    onRequest() {},
  });
}

/** Thrown when more requests arrive than are ever served: continuing would only lengthen the queue. */
class Unstable extends Error {}

/** A fleet that keeps up never has this many times as many requests under way as its engines run at once. */
const TIMES_ITS_BATCHES = 20;
const LEAST_OPEN = 10_000;

const mostOpen = (options: ClusterOptions): number =>
  Math.max(LEAST_OPEN, TIMES_ITS_BATCHES * options.maxNumSeqs * seatsOf(options).length);

/** Added to the time of the last arrival, so that it has happened. */
const LATER_MS = 1;

/** Resolves once the requests have ended that are under way when the load ends, at `lastMs`. */
async function lastHaveEnded(lastMs: number, cluster: SimulatedCluster, collector: Collector) {
  await cluster.clock.sleep(lastMs + LATER_MS);
  await collector.underWayEnd();
}

/** When the last conversation arrives; 0 for clients. */
function lastArrivalMs(load: Load, seed: number): number {
  let lastMs = 0;
  if (load.kind === 'arrivals') for (const { atMs } of load.arrivals(seed)) lastMs = atMs;
  return lastMs;
}

/**
 * Simulates an arm with one seed. With `toEnd`, until every request has ended. Without it, until the requests have
 * ended that are under way when the last conversation has arrived: these are served exactly as in a whole run, and what
 * follows is a fleet that empties. Stops early, and sets `stopped`, if the load can never be served.
 */
export async function simulateOnce(
  { options, load }: SimulatedArmPlan,
  world: SimulationWorld,
  seed: number,
  collector: Collector = new Collector(),
  toEnd = true,
): Promise<SimulatedRun> {
  // During a run the signal is checked only now and then, and many short runs may end before that.
  world.signal.throwIfAborted();
  const answers = new Answers(...world.tokenIds);
  const faults = world.faultPlan != null;
  const cluster = new SimulatedCluster({ stepSeed: seed, ...world, options, answers, faults });
  const { signal } = world;
  const stormy = world.faultPlan ? new StormyLoad(cluster, world.faultPlan, seed) : null;
  const most = mostOpen(options);
  let before: Counted | null = null;
  const onWarmedUp = async () => {
    before = warmedUp(cluster);
  };
  const served = serveLoad(stormy ?? cluster, load, collector, { seed, signal, onWarmedUp });
  const traceLastMs = load.kind === 'trace' ? lastComesMs(load.turns) : null;
  const ended = toEnd
    ? served
    : Promise.race([served, lastHaveEnded(traceLastMs ?? lastArrivalMs(load, seed), cluster, collector)]);
  let stopped: SimulatedRun['stopped'] = null;
  try {
    await cluster.run(ended, (nowMs) => {
      signal.throwIfAborted();
      if (load.kind !== 'clients' && collector.open > most) throw new Unstable();
      return world.onProgress(collector.count, nowMs);
    });
  } catch (error) {
    if (!(error instanceof Unstable)) throw error;
    ended.catch(() => {});
    stopped = { atMs: cluster.clock.now(), open: collector.open };
  }
  return {
    ...{ cluster, collector, stopped, warmedUp: before },
    happened: stormy?.happened ?? null,
    lastComesMs: traceLastMs,
  };
}

/**
 * Simulates one seed and checks the result. With `world.check` it simulates twice and both results must be equal.
 * Throws InternalError.
 */
export async function simulateSeed(
  plan: SimulatedArmPlan,
  world: SimulationWorld,
  seed: number,
): Promise<RunOutcome> {
  const once = async (): Promise<RunOutcome> => {
    const run = await simulateOnce(plan, world, seed);
    const outcome = outcomeOf(run);
    if (!run.stopped) await checkRun(run.cluster, run.collector);
    return outcome;
  };
  const outcome = await once();
  if (world.check) checkSame(outcome, await once(), seed);
  return outcome;
}
