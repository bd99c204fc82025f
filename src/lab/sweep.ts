/**
 * Compares pulling with recomputing. At each point, D holds the KV of a number of tokens that P lacks; the turn after them is
 * served both ways in alternating rounds, each time from the same state (Cluster.rewind). Uses only the Cluster interface, so
 * it also runs in a page.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { usesNixl } from '../config/connectors.ts';
import { NO_PEERS, type PullPolicyName } from '../config/kv-transfer.ts';
import { cacheGroups, handedOverBlocks } from '../engine/kv-cache-spec.ts';
import { ConfigError, InternalError, RequestError } from '../errors.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import { neverOffered } from '../router/next-turn-hold.ts';
import type { TurnResult } from '../router/turn-types.ts';
import { seededGenerator } from '../seeded.ts';
import { sumOf } from '../sum.ts';
import type { LinkSpec } from '../transport/link.ts';
import { LOWEST_TOKEN_ID } from '../workload/random-conversations.ts';
import { type PoolNeeds, poolFor } from './pools.ts';

/** How a turn is served: 'pull' as in bidirectional mode, 'recompute' as in unidirectional, 'monolithic' by one engine. */
export type SweepWay = 'pull' | 'recompute' | 'monolithic';

export interface SweepPlan {
  links: readonly (LinkSpec | null)[];
  /** Tokens that D holds and P lacks. */
  contexts: readonly number[];
  /** Tokens before those that P has cached; multiples of the block size. */
  localHits: readonly number[];
  /** Tokens after those that no engine has. */
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
  /** The pull from D; null if nothing was pulled. */
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
  /** Called after each turn. */
  onProgress?: (done: number, total: number, what: string) => void;
  /** Called after each point, with its series. After an abort, these are all the results there are. */
  onPoint?: (series: SweepSeries) => void;
}

/** Uncounted rounds for the handshake and first touches of memory. */
const WARM_UPS = 1;

/** Turns that a plan serves on one cluster. */
export function sweepTurns({ links, localHits, contexts, rounds, ways }: SweepPlan): number {
  return links.length * localHits.length * contexts.length * (1 + ways.length * (WARM_UPS + rounds));
}

/** Throws ConfigError if a point does not fit the cluster. */
export function checkPlan(
  plan: SweepPlan,
  options: PoolNeeds & Pick<ClusterOptions, 'prefill' | 'decode' | 'connector'>,
): void {
  if (plan.ways.includes('pull')) checkOffered(options);
  const { maxModelLen, blockSize, prefill, decode } = options;
  const longest = Math.max(...plan.contexts) + Math.max(...plan.localHits) + plan.newTokens + 2;
  if (longest > maxModelLen) {
    throw new ConfigError(
      `the longest turn has ${longest} tokens and the model's context is ${maxModelLen}: lower --context, --local-hit or --new-tokens`,
    );
  }
  const uneven = plan.localHits.find((tokens) => tokens % blockSize !== 0);
  if (uneven !== undefined) {
    throw new ConfigError(
      `--local-hit is ${uneven} tokens, but a prefix cache keeps whole blocks of ${blockSize}: give multiples of ${blockSize}`,
    );
  }
  // D holds the last turn while it serves this one.
  const all = Math.ceil(longest / blockSize);
  const held = sumOf(cacheGroups(options), (spec) => Math.min(all, handedOverBlocks(spec, blockSize)));
  const needed = poolFor(longest, options) + held;
  const blocks = Math.min(prefill.numBlocks, decode.numBlocks);
  if (needed > blocks) {
    throw new ConfigError(
      `a pool has ${blocks} blocks and two turns of ${longest} tokens need ${needed}: give --p-blocks and --d-blocks that many, or lower --context`,
    );
  }
}

/**
 * Leaves the cluster with the last link, without a store's connector, and in bidirectional mode, or monolithic if that was
 * measured. Rejects with the signal's reason when it aborts.
 */
export async function sweepCluster(
  cluster: Cluster,
  plan: SweepPlan,
  hooks: SweepHooks = {},
): Promise<SweepSeries[]> {
  // Without the store: a pull must read from D, and a recompute must compute.
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

/** Returns a function that draws token ids of the cluster's vocabulary, without those that mark turns. */
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
      // Alternates which way goes first.
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
  /** Serves the turn to its first token. Every call starts from the same state. */
  serve(pull: PullPolicyName): Promise<TurnResult>;
  end(): Promise<void>;
}

export interface TurnToPrepare {
  /** Tokens whose KV D holds afterwards. */
  history: readonly number[];
  /** Tokens after the history and D's answer. */
  added: readonly number[];
  /** Tokens at the start of the history that P keeps. */
  keep: number;
  signal: AbortSignal | undefined;
}

let prepared = 0;

/** Brings D to hold the history's KV, and P its first `keep` tokens, as after an answer that D generated. */
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
  // P's prefix cache now has the whole history. After this turn, every call begins with a rewind, which trims it to `keep`.
  if (keep > 0) await serve('always');
  else await forgetOnP(cluster, history);
  return { serve, end: () => cluster.endConversation(conversationId) };
}

/** For engines whose prefix cache a fleet file turns on, whatever the cluster's setting. */
async function forgetOnP({ engines }: Cluster, tokenIds: readonly number[]): Promise<void> {
  const prefill = engines.filter(({ role }) => role === 'prefill');
  await Promise.all(prefill.map((engine) => engine.forgetPrefix(tokenIds, null, 0)));
}

/** Serves a turn of one output token. */
export async function firstToken(
  cluster: Cluster,
  conversationId: string,
  promptTokenIds: readonly number[],
  pull: PullPolicyName | null,
  signal: AbortSignal | undefined,
): Promise<TurnResult> {
  signal?.throwIfAborted();
  const sampling = { maxTokens: 1, ignoreEos: true };
  // Some routing policies let D prefill short prompts, so that nothing would be pulled or handed over.
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
  'nothing was offered to P (D does not offer KV in the last 5 s before it expires: give a --ttl above 5 s)';

/** Throws ConfigError if D would offer nothing to P, so that no pull can be measured. */
export function checkOffered({ connector }: Pick<ClusterOptions, 'connector'>): void {
  if (!usesNixl(connector))
    throw new ConfigError(`no pull can be measured with ${connector.name}: ${NO_PEERS}`);
  const { decoderTtlMs } = connector.nixl;
  if (neverOffered(decoderTtlMs))
    throw new ConfigError(
      `--ttl is ${decoderTtlMs / 1000} s, and D does not offer KV in the last 5 s before it expires: give more than 5 s, so that pulls can be measured`,
    );
}

/** Throws RequestError if the turn pulled other tokens than planned; the cluster's settings are the cause. */
function checkPulled(way: SweepWay, { prompt }: TurnResult, contextTokens: number): void {
  const { pulledTokens, noPull } = prompt;
  const expected = way === 'pull' ? contextTokens : 0;
  if (pulledTokens === expected) return;
  throw new RequestError(
    `a turn pulled ${pulledTokens} tokens, but must pull ${expected} to be measured: ${noPull?.reason ?? NOT_OFFERED}`,
  );
}
