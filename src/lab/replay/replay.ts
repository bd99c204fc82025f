/** Replays a trace on real engines, in each mode or with each routing policy. The trace is read once before engines start. */

import type { RunConfig } from '../../config/run.ts';
import type { Cluster, ClusterOptions } from '../../fleet/types.ts';
import { formatCount, plural } from '../../measure/format.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import { countsSince, spanCost } from '../../measure/summaries/span-cost.ts';
import { LOOK_AHEAD, TraceFeed } from '../../workload/traces/feed.ts';
import { describeScale } from '../../workload/traces/scale.ts';
import { TraceTokens } from '../../workload/traces/tokens.ts';
import type { DrawnArrivals, TraceScale, TraceTurn } from '../../workload/traces/types.ts';
import { finalIntegrity } from '../integrity.ts';
import { ClusterTarget, servedBy } from '../multiturn/cluster-target.ts';
import {
  type ExperimentPlan,
  modeArm,
  policyArms,
  scaledThreshold,
  TITLES,
} from '../multiturn/experiments.ts';
import { makeBenchReport, persistenceNotes } from '../multiturn/report.ts';
import { type ArmRound, measured, type RoundWatcher } from '../multiturn/rounds.ts';
import { ServedRounds } from '../multiturn/served-rounds.ts';
import type { SessionWatcher } from '../multiturn/session.ts';
import { summariseExperiment, unansweredArm } from '../multiturn/summary.ts';
import { needBlocks, poolFor } from '../pools.ts';
import type { ReportSource } from '../run-report.ts';
import { serveTrace, type TraceServing } from './serve-trace.ts';

/** A trace that can be read several times. */
export interface ReplayedTrace {
  source: string;
  scale: TraceScale;
  /** null: the trace has times of its own. */
  drawn: DrawnArrivals | null;
  open(): Promise<AsyncIterable<TraceTurn>>;
}

/** A trace's totals. */
export interface TraceTotals {
  requests: number;
  conversations: number;
  promptTokens: number;
  outputTokens: number;
  /** Prompt and output tokens of the longest request. */
  longest: number;
  /** Arrival of the last turn with an arrival time of its own (a conversation's first), milliseconds. */
  lastMs: number;
}

/** Reads the whole trace. Throws what reading throws, for bad lines and for lengths beyond the context. */
export async function traceTotals(trace: ReplayedTrace): Promise<TraceTotals> {
  const totals = { requests: 0, conversations: 0, promptTokens: 0, outputTokens: 0, longest: 0, lastMs: 0 };
  for await (const { arrival, inputTokens, outputTokens } of await trace.open()) {
    totals.requests++;
    totals.promptTokens += inputTokens;
    totals.outputTokens += outputTokens;
    totals.longest = Math.max(totals.longest, inputTokens + outputTokens);
    if (arrival.kind === 'after') continue;
    totals.conversations++;
    totals.lastMs = Math.max(totals.lastMs, arrival.ms);
  }
  return totals;
}

/** One arm for each mode and each routing policy. Throws ConfigError if a pool is too small. */
export function planReplay(
  config: RunConfig,
  options: ClusterOptions,
  { longest }: TraceTotals,
): ExperimentPlan {
  const { prefill, decode } = options;
  const needed = poolFor(longest, options);
  needBlocks(
    { prefill: prefill.numBlocks, decode: decode.numBlocks },
    needed,
    (option, numBlocks) =>
      `${option} is ${numBlocks}, but the longest request needs ${needed - 1} blocks of ${options.blockSize} tokens and the null block: give ${needed} or more`,
  );
  const prefixCaching = prefill.enablePrefixCaching;
  // The benchmark experiment with the same prefix caching.
  const name = prefixCaching ? 'prefix-caching' : 'no-prefix-caching';
  return {
    name,
    key: 'replay',
    title: TITLES[name],
    prefixCaching,
    pBlocks: prefill.numBlocks,
    dBlocks: decode.numBlocks,
    arms: config.routing.length > 1 ? policyArms(config) : config.mode.map((mode) => modeArm(mode, config)),
    published: null,
  };
}

/** That the default threshold was divided too; empty if no mode pulls by it. */
export const thresholdNotes = (
  { mode, pullPolicy, threshold }: RunConfig,
  { lengthDivisor }: TraceScale,
): string[] =>
  lengthDivisor > 1 &&
  mode.includes('bidirectional') &&
  pullPolicy === 'threshold' &&
  threshold === scaledThreshold(lengthDivisor)
    ? [`The threshold is divided likewise: ${plural(threshold, 'token')}.`]
    : [];

export interface Replay {
  config: RunConfig;
  trace: ReplayedTrace;
  totals: TraceTotals;
  plan: ExperimentPlan;
  /** When the command began, by `now`. */
  begunMs: number;
  signal: AbortSignal;
}

/**
 * Needs a cluster that was started for the plan. When the signal aborts, the report has the whole rounds, or what was served
 * of the first.
 */
export async function replayTrace(
  cluster: Cluster,
  { config, trace, totals, plan, begunMs, signal }: Replay,
  world: ReportSource & Pick<TraceServing, 'now' | 'sleep'>,
  watcher: Pick<SessionWatcher, 'planned' | keyof RoundWatcher>,
): Promise<BenchReport> {
  const { now, sleep } = world;
  const { temperature, topK, topP, seed } = config;
  const target = new ClusterTarget(cluster, { temperature, topK, topP, seed });
  const tokens = new TraceTokens(cluster.info.model.vocabSize, seed);
  const served = new ServedRounds(plan.arms, watcher);
  const notes = [
    describeScale(trace.scale, trace.drawn, config.limit),
    ...thresholdNotes(config, trace.scale),
    ...persistenceNotes(config, [plan]),
  ];
  const planned = config.rounds ?? 1;
  watcher.planned(planned, null);
  await warmUp(cluster, target, plan, trace, { round: 0, tokens, signal, now, sleep, onRequest: () => {} });
  const spansBefore = cluster.spanCounts();
  const servedFromMs = now();
  let incompleteReason: string | null = null;
  for (let round = 1; round <= planned && incompleteReason === null; round++) {
    for (const arm of round % 2 === 0 ? plan.arms.toReversed() : plan.arms) {
      served.armBegins(plan, arm, round, totals.requests);
      const serving: TraceServing = {
        ...{ round, tokens, signal, now, sleep },
        onRequest: (request) => served.requestDone(request),
        onFailure: (message) => served.requestFailed(message),
      };
      try {
        const feed = new TraceFeed(await trace.open());
        const done = await measured(cluster, target, plan, arm, round, () =>
          serveTrace(target, feed, serving),
        );
        served.armEnds(plan, arm, done);
        const behind = behindBy(done, totals);
        if (behind) notes.push(`${arm.label}, round ${round}: ${behind}`);
        if (feed.late > 0) notes.push(`${arm.label}, round ${round}: ${sentLate(feed.late)}`);
      } catch (error) {
        if (!signal.aborted) throw error;
        incompleteReason = 'interrupted';
        break;
      }
    }
  }
  const rounds = served.comparable();
  incompleteReason ??= unansweredArm([plan], rounds);
  await target.settled();
  const recorder = await spanCost(countsSince(spansBefore, cluster.spanCounts()), now() - servedFromMs, now);
  const integrity = signal.aborted ? null : await finalIntegrity(cluster);
  const { adapter, model, link } = cluster.info;
  const experiment = summariseExperiment(plan, rounds, config, model.blockBytes, cluster.info.engines);
  const { lengthDivisor } = trace.scale;
  return makeBenchReport(world, config, {
    adapter,
    target: servedBy(model, link),
    workload: {
      source: trace.source,
      scale: lengthDivisor === 1 ? '1' : `1/${lengthDivisor}`,
      seed,
      num_clients: 0,
      max_active_conversations: 0,
      conversations: totals.conversations,
      requests: totals.requests,
      prompt_tokens: totals.promptTokens,
      output_tokens: totals.outputTokens,
      generation: {},
    },
    plan: { budget_ms: null, spent_ms: now() - begunMs, rounds: experiment.rounds, notes },
    experiments: { [plan.key]: experiment },
    incompleteReason,
    integrity,
    recorderShare: recorder.share,
  });
}

/** Uncounted requests at the start, for what a first step or transfer sets up. */
const WARM_UP_REQUESTS = 4;

async function warmUp(
  cluster: Cluster,
  target: ClusterTarget,
  plan: ExperimentPlan,
  trace: ReplayedTrace,
  serving: TraceServing,
): Promise<void> {
  async function* first(): AsyncGenerator<TraceTurn> {
    let left = WARM_UP_REQUESTS;
    for await (const turn of await trace.open()) {
      yield { ...turn, arrival: { kind: 'at', ms: 0 } };
      if (--left === 0) return;
    }
  }
  try {
    await measured(cluster, target, plan, plan.arms.at(-1)!, 0, () =>
      serveTrace(target, new TraceFeed(first()), serving),
    );
  } catch (error) {
    // After an abort, the first round ends in the same way.
    if (!serving.signal.aborted) throw error;
  }
}

const sentLate = (late: number): string =>
  `${plural(late, 'turn')} came late, since turns are found only ${formatCount(LOOK_AHEAD)} conversations ahead in the trace: put the turns of a conversation nearer to each other`;

/** A note if the fleet was overloaded: its latencies then depend on the length of the trace. null: it kept up. */
function behindBy({ requests, runtimeMs }: ArmRound, { lastMs }: TraceTotals): string | null {
  const slowest = requests.reduce((most, { sample }) => Math.max(most, sample.ttft_ms), 0);
  if (slowest < 10_000 || runtimeMs < 1.2 * lastMs) return null;
  return `the engines could not keep up: the last answer came ${Math.round((runtimeMs - lastMs) / 1000)} s after the last conversation began. Latencies include a growing queue; slow the trace down (--speed-up)`;
}
