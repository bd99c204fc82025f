/**
 * Pull against recompute, the same turn both ways: at each point D holds so many tokens' KV that P has not, and the turn
 * after them is served pulled and computed, in alternating rounds, each time from the same state (Cluster.rewind).
 * Knows the cluster's interface only; runs in a page as well.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import type { PullPolicyName } from '../config/kv-transfer.ts';
import { FULL_GROUP, handedOverBlocks, keptBy } from '../engine/kv-cache-spec.ts';
import { ConfigError, InternalError, RequestError } from '../errors.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { TurnResult } from '../router/turn-types.ts';
import { seededGenerator } from '../seeded.ts';
import type { LinkSpec } from '../transport/link.ts';
import { LOWEST_TOKEN_ID } from '../workload/made.ts';
import { type PoolNeeds, poolFor } from './pools.ts';

/** What a turn is served by: 'pull' is bidirectional, 'recompute' unidirectional's way, 'monolithic' one engine alone. */
export type SweepWay = 'pull' | 'recompute' | 'monolithic';

export interface SweepPlan {
  links: readonly (LinkSpec | null)[];
  /** Tokens that D holds and P has not. */
  contexts: readonly number[];
  /** Tokens before them that P has itself; multiples of the block size. */
  localHits: readonly number[];
  /** Tokens after them that nobody has. */
  newTokens: number;
  rounds: number;
  ways: readonly SweepWay[];
  seed: number;
}

export interface SweepSample {
  ttftMs: number;
  promptTokens: number;
  localHitTokens: number;
  pulledTokens: number;
  computedTokens: number;
  /** Of the pull from D; null when nothing was pulled. */
  transfer: { bytes: number; blocks: number; descriptors: number; ms: number } | null;
}

export interface SweepPoint {
  contextTokens: number;
  promptTokens: number;
  /** By round. */
  samples: Readonly<Record<SweepWay, readonly SweepSample[]>>;
}

export interface SweepSeries {
  link: LinkSpec | null;
  localHitTokens: number;
  points: SweepPoint[];
}

export interface SweepHooks {
  signal?: AbortSignal;
  /** After each turn served: how many are done, of how many. */
  onProgress?: (done: number, total: number, what: string) => void;
  /** After each point; what was measured before an abort is what came here. */
  onPoint?: (series: SweepSeries) => void;
}

/** Each way once before the rounds: memory is touched for the first time, and the handshake is made. */
const WARM_UPS = 1;

/** Turns that a plan serves, for whoever shows progress over several clusters. */
export function sweepTurns({ links, localHits, contexts, rounds, ways }: SweepPlan): number {
  return links.length * localHits.length * contexts.length * (1 + ways.length * (WARM_UPS + rounds));
}

/** Throws ConfigError when a point does not fit the cluster. */
export function checkPlan(
  plan: SweepPlan,
  options: PoolNeeds & Pick<ClusterOptions, 'prefill' | 'decode'>,
): void {
  const { maxModelLen, blockSize, prefill, decode, kvCacheGroups = FULL_GROUP, allFullKv = false } = options;
  const longest = Math.max(...plan.contexts) + Math.max(...plan.localHits) + plan.newTokens + 2;
  if (longest > maxModelLen) {
    throw new ConfigError(
      `the longest turn has ${longest} tokens and the context holds ${maxModelLen}: lower --context, --local-hit or --new-tokens`,
    );
  }
  const uneven = plan.localHits.find((tokens) => tokens % blockSize !== 0);
  if (uneven !== undefined) {
    throw new ConfigError(
      `--local-hit is ${uneven} tokens, and a prefix cache keeps whole blocks of ${blockSize}: give multiples of ${blockSize}`,
    );
  }
  // D holds the last turn while it serves this one.
  const groups = keptBy(kvCacheGroups, allFullKv);
  const all = Math.ceil(longest / blockSize);
  const held = groups.reduce((sum, spec) => sum + Math.min(all, handedOverBlocks(spec, blockSize)), 0);
  const needed = poolFor(longest, options) + held;
  const blocks = Math.min(prefill.numBlocks, decode.numBlocks);
  if (needed > blocks) {
    throw new ConfigError(
      `a pool has ${blocks} blocks and two turns of ${longest} tokens need ${needed}: give --p-blocks and --d-blocks that many, or lower --context`,
    );
  }
}

/** Leaves the cluster bidirectional with the last link, and without a store's connector. Rejects with the signal's reason when it aborts. */
export async function sweepCluster(
  cluster: Cluster,
  plan: SweepPlan,
  hooks: SweepHooks = {},
): Promise<SweepSeries[]> {
  // A pull is to be a pull, and what is computed again computed, whatever a store has.
  if (cluster.settings.store) await cluster.configure({ connector: { name: 'NixlConnector' } });
  const random = seededGenerator(plan.seed);
  const total = sweepTurns(plan);
  let done = 0;
  const all: SweepSeries[] = [];
  for (const link of plan.links) {
    for (const localHitTokens of plan.localHits) {
      const series: SweepSeries = { link, localHitTokens, points: [] };
      all.push(series);
      const where = `${link ? `link ${link.name}, ` : ''}${localHitTokens > 0 ? `hit ${localHitTokens}, ` : ''}`;
      for (const contextTokens of plan.contexts) {
        const step = () => hooks.onProgress?.(++done, total, `${where}${contextTokens} tokens`);
        const point = { link, localHitTokens, contextTokens };
        series.points.push(await measurePoint(cluster, plan, point, random, hooks.signal, step));
        hooks.onPoint?.(series);
      }
    }
  }
  return all;
}

/** Draws so many ids of the cluster's vocabulary, none of which marks a turn. */
export const drawTokens =
  (cluster: Cluster, random: RandomGenerator) =>
  (count: number): number[] =>
    Array.from({ length: count }, () =>
      uniformInt(random, LOWEST_TOKEN_ID, cluster.info.model.vocabSize - 1),
    );

interface PointSpec {
  link: LinkSpec | null;
  localHitTokens: number;
  contextTokens: number;
}

async function measurePoint(
  cluster: Cluster,
  plan: SweepPlan,
  { link, localHitTokens, contextTokens }: PointSpec,
  random: RandomGenerator,
  signal: AbortSignal | undefined,
  step: () => void,
): Promise<SweepPoint> {
  const samples: Record<SweepWay, SweepSample[]> = { pull: [], recompute: [], monolithic: [] };
  const ids = drawTokens(cluster, random);
  const history = ids(localHitTokens + contextTokens);
  const added = ids(plan.newTokens);
  const disaggregated = plan.ways.filter((way) => way !== 'monolithic');
  for (const ways of [disaggregated, plan.ways.filter((way) => way === 'monolithic')]) {
    if (ways.length === 0) continue;
    const mode = ways[0] === 'monolithic' ? 'monolithic' : 'bidirectional';
    await cluster.configure({ mode, link, prefixCaching: localHitTokens > 0 });
    const turn = await prepareTurn(cluster, { history, added, keep: localHitTokens, signal });
    if (ways === disaggregated) step();
    for (let round = -WARM_UPS; round < plan.rounds; round++) {
      // Who goes first changes from round to round.
      for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
        const result = await turn.serve(WAYS[way]);
        checkPulled(way, result, contextTokens);
        const sample = sampleOf(result);
        if (round >= 0) samples[way].push(sample);
        step();
      }
    }
    await turn.end();
  }
  return { contextTokens, promptTokens: history.length + 1 + added.length, samples };
}

const WAYS: Readonly<Record<SweepWay, PullPolicyName>> = {
  pull: 'always',
  recompute: 'never',
  monolithic: 'never',
};

export interface PreparedTurn {
  /** Serves it to its first token. Every call finds the state that the first one found. */
  serve(pull: PullPolicyName): Promise<TurnResult>;
  end(): Promise<void>;
}

export interface TurnToPrepare {
  /** Tokens whose KV D then holds. */
  history: readonly number[];
  /** Tokens that follow them and D's answer. */
  added: readonly number[];
  /** Tokens of the history that P keeps. */
  keep: number;
  signal: AbortSignal | undefined;
}

let prepared = 0;

/** D holds the history's KV and P the first `keep` tokens of it, as after an answer that D generated. */
export async function prepareTurn(
  cluster: Cluster,
  { history, added, keep, signal }: TurnToPrepare,
): Promise<PreparedTurn> {
  const conversationId = `sweep-${++prepared}`;
  const first = await firstToken(cluster, conversationId, history, null, signal);
  const promptTokenIds = [...history, ...first.outputTokenIds, ...added];
  let served = 0;
  const serve = async (pull: PullPolicyName) => {
    if (served++ > 0) await cluster.rewind(conversationId, keep);
    return firstToken(cluster, conversationId, promptTokenIds, pull, signal);
  };
  // P has all of the history in its cache now, if it caches: a turn taken back leaves it what it keeps.
  if (keep > 0) await serve('always');
  return { serve, end: () => cluster.endConversation(conversationId) };
}

/** A turn of one token. */
export async function firstToken(
  cluster: Cluster,
  conversationId: string,
  promptTokenIds: readonly number[],
  pull: PullPolicyName | null,
  signal: AbortSignal | undefined,
): Promise<TurnResult> {
  signal?.throwIfAborted();
  const sampling = { maxTokens: 1, ignoreEos: true };
  // Some policies let D prefill what is short: then nothing would be pulled, or handed over.
  const routing = 'round-robin';
  const request = { conversationId, promptTokenIds, sampling, routing, ...(pull ? { pull } : {}) };
  for await (const { final } of cluster.generate(signal ? { ...request, signal } : request)) {
    if (final) return final;
  }
  throw new InternalError(`${conversationId} ended without a result`);
}

function sampleOf({ ttftMs, prompt, transfer }: TurnResult): SweepSample {
  const { promptTokens, localHitTokens, pulledTokens, computedTokens } = prompt;
  const pull = transfer.dToP;
  return {
    ttftMs,
    promptTokens,
    localHitTokens,
    pulledTokens,
    computedTokens,
    transfer: pull && { bytes: pull.bytes, blocks: pull.blocks, descriptors: pull.descriptors, ms: pull.ms },
  };
}

const NOT_OFFERED =
  'nothing was offered to P (KV is not offered in the last 5 s that D keeps it: give a --ttl above that)';

/** Throws RequestError: what keeps a turn from being pulled is how the cluster was set. */
function checkPulled(way: SweepWay, { prompt }: TurnResult, contextTokens: number): void {
  const { pulledTokens, noPull } = prompt;
  const wanted = way === 'pull' ? contextTokens : 0;
  if (pulledTokens === wanted) return;
  throw new RequestError(
    `a turn was to pull ${wanted} tokens, to measure that, and pulled ${pulledTokens}: ${noPull?.reason ?? NOT_OFFERED}`,
  );
}
