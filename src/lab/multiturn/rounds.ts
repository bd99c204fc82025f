/** Serves a workload in every arm of every experiment, round by round, each time from empty caches. */

import type { StoreCounters } from '../../connector/types.ts';
import { eachNoPull } from '../../engine/counters.ts';
import { poolOf, seatsOf } from '../../fleet/options.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { EngineStats } from '../../host/engine-report.ts';
import type { CarriedKv } from '../../measure/summaries/bench-paths.ts';
import type { HeldBlocks, MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import type { StoreStats } from '../../store/stats.ts';
import { sumOf } from '../../sum.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { peakKvBytes } from '../peak-kv.ts';
import { type StoreBytes, storeBytesBetween } from '../store-bytes.ts';
import { type ClientOptions, requestsOf, type ServedRound, serveConversations } from './clients.ts';
import type { Arm, ExperimentPlan } from './experiments.ts';
import type { BenchTarget } from './target.ts';

/** One arm in one round. */
export interface ArmRound {
  round: number;
  requests: readonly MeasuredRequest[];
  errors: ReadonlyMap<string, number>;
  runtimeMs: number;
  counters: ArmCounters | null;
  /** Conversations were dropped after this round: `requests` excludes them, but the time and the counters include them. */
  cut?: true;
  /** Set if KV paths are compared. */
  carried?: CarriedKv;
}

/** The engines' counters for an arm's round. */
export interface ArmCounters {
  heldForP: HeldBlocks | null;
  heldForD: HeldBlocks | null;
  /** Peak bytes of KV in use, by role. */
  peakKvBytes: { prefill: number; decode: number };
  /** null without a store. */
  store: StoreBytes | null;
  preemptions: number;
  /** Holds dropped unread to free blocks. */
  holdsDropped: { forP: number; forD: number };
  /** Prompts for which nothing was pulled although KV was offered, by reason. */
  noPulls: EngineStats['noPulls'];
  firstUseCompilations: number;
}

/** Options that are the same for all rounds and arms. */
export type ServeOptions = Omit<ClientOptions, 'round' | 'signal' | 'onRequest' | 'onFailure'>;

/** The part of a plan that configures the engines. */
type Pools = Pick<ExperimentPlan, 'prefixCaching' | 'pBlocks' | 'dBlocks' | 'link'>;

export interface RoundWatcher {
  armBegins(experiment: ExperimentPlan, arm: Arm, round: number, requests: number): void;
  requestDone(request: MeasuredRequest): void;
  requestFailed?(message: string): void;
  armEnds(experiment: ExperimentPlan, arm: Arm, done: ArmRound): void;
}

/** Even rounds run the arms in reverse order, so that drift does not favour one arm. */
export async function runRound(
  cluster: Cluster,
  target: BenchTarget,
  experiments: readonly ExperimentPlan[],
  conversations: readonly BenchConversation[],
  options: ServeOptions & { round: number; signal: AbortSignal },
  watcher: RoundWatcher,
): Promise<void> {
  for (const experiment of experiments) {
    const arms = options.round % 2 === 0 ? experiment.arms.toReversed() : experiment.arms;
    for (const arm of arms) {
      const requests = requestsOf(conversations, options);
      watcher.armBegins(experiment, arm, options.round, requests);
      const done = await runArm(cluster, target, experiment, arm, conversations, {
        ...options,
        onRequest: (request) => watcher.requestDone(request),
        onFailure: (message) => watcher.requestFailed?.(message),
      });
      watcher.armEnds(experiment, arm, done);
    }
  }
}

export async function runArm(
  cluster: Cluster,
  target: BenchTarget,
  experiment: Pools,
  arm: Pick<Arm, 'mode' | 'threshold' | 'audited' | 'routing' | 'path' | 'allFullKv'>,
  conversations: readonly BenchConversation[],
  options: ClientOptions,
): Promise<ArmRound> {
  return measured(cluster, target, experiment, arm, options.round, (onWarmedUp) =>
    serveConversations(target, conversations, {
      ...options,
      onWarmedUp,
      auditor: arm.audited ? options.auditor : null,
      maxActive: Math.min(options.maxActive, conversations.length),
    }),
  );
}

/**
 * Runs `serve` from empty caches with the arm's settings, and returns the engines' counters for that time. If `serve` calls
 * onWarmedUp, counting starts there, so that the counters cover only the reported requests.
 */
export async function measured(
  cluster: Cluster,
  target: BenchTarget,
  experiment: Pools,
  arm: Pick<Arm, 'mode' | 'threshold' | 'routing' | 'path' | 'allFullKv'>,
  round: number,
  serve: (onWarmedUp: () => Promise<void>) => Promise<ServedRound>,
): Promise<ArmRound> {
  await target.settled();
  await cluster.configure({
    mode: arm.mode,
    recomputeThreshold: arm.threshold,
    prefixCaching: experiment.prefixCaching,
    prefillBlocks: experiment.pBlocks,
    decodeBlocks: experiment.dBlocks,
    ...(experiment.link === undefined ? {} : { link: experiment.link }),
    ...(arm.path ? { connector: arm.path.connector, costProfile: arm.path.costProfile ?? null } : {}),
    ...(arm.routing ? { routing: arm.routing } : {}),
    ...(arm.allFullKv === undefined ? {} : { allFullKv: arm.allFullKv }),
  });
  let before = await cluster.stats();
  const served = await serve(async () => {
    before = await cluster.stats();
  });
  const after = await cluster.stats();
  const counters = { ...counted(before, after), peakKvBytes: peakKvBytes(cluster.info, after) };
  if (!arm.path) return { round, ...served, counters };
  return {
    round,
    ...served,
    counters,
    carried: carriedBy(cluster, before, after, await cluster.storeStats()),
  };
}

/** Bytes through the store. The store is empty after configure(). */
function carriedBy(
  cluster: Cluster,
  before: readonly EngineStats[],
  after: readonly EngineStats[],
  store: StoreStats | null,
): CarriedKv {
  const of = (engines: readonly EngineStats[], engineId: string, value: (used: StoreCounters) => number) => {
    const used = engines.find((each) => each.engineId === engineId)?.store;
    return used ? value(used) : 0;
  };
  const sum = (role: EngineRole | null, value: (used: StoreCounters) => number): number =>
    cluster.info.engines
      .filter((engine) => role === null || engine.role === role)
      .reduce((n, { engineId }) => n + of(after, engineId, value) - of(before, engineId, value), 0);
  const { settings } = cluster;
  const blocks = (of: EngineRole): number =>
    sumOf(seatsOf(settings), (seat) => (seat.role === of ? poolOf(settings, seat).numBlocks : 0));
  return {
    storeToP: sum('prefill', ({ loadedBytes }) => loadedBytes),
    storeToD: sum('decode', ({ loadedBytes }) => loadedBytes),
    pToStore: sum('prefill', ({ savedBytes }) => savedBytes),
    dToStore: sum('decode', ({ savedBytes }) => savedBytes),
    twoHops: sum(null, ({ twoHopBytes }) => twoHopBytes),
    savingBlockMs: sum(null, ({ savingBlockMs }) => savingBlockMs),
    pBlocks: blocks('prefill'),
    dBlocks: blocks('decode'),
    storeBytes: store ? store.blocks * store.blockBytes : 0,
    storeCapacity: store ? store.slots * store.blockBytes : 0,
  };
}

/** Peaks are since configure(), warm-up included: its holds are still there when counting begins. */
function counted(
  before: readonly EngineStats[],
  after: readonly EngineStats[],
): Omit<ArmCounters, 'peakKvBytes'> {
  const sum = (value: (engine: EngineStats) => number): number => sumOf(after, value) - sumOf(before, value);
  const held = (direction: 'prefill' | 'decode'): HeldBlocks | null => {
    const uses = after.flatMap(({ engineId, holdUse }) => {
      if (!holdUse) return [];
      const { blockMs, peakBlocks, atMs, sinceMs } = holdUse[direction];
      const then = before.find((engine) => engine.engineId === engineId)?.holdUse?.[direction];
      return [
        { blockMs: blockMs - (then?.blockMs ?? 0), peakBlocks, overMs: atMs - (then?.atMs ?? sinceMs) },
      ];
    });
    if (uses.length === 0) return null;
    return {
      blockMs: sumOf(uses, (use) => use.blockMs),
      peakBlocks: sumOf(uses, (use) => use.peakBlocks),
      overMs: Math.max(...uses.map((use) => use.overMs)),
    };
  };
  return {
    heldForP: held('decode'),
    heldForD: held('prefill'),
    store: storeBytesBetween(before, after),
    preemptions: sum((engine) => engine.preemptions),
    holdsDropped: {
      forP: sum(({ transfers }) => transfers?.holdsDropped.decode ?? 0),
      forD: sum(({ transfers }) => transfers?.holdsDropped.prefill ?? 0),
    },
    noPulls: eachNoPull((by) => sum(({ noPulls }) => noPulls[by])),
    firstUseCompilations: sum((engine) => engine.firstUseCompilations),
  };
}
