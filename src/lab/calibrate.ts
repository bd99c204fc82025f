/** Measures the cost of pulling and of prefilling on a running cluster, over its link, and builds a cost profile. */
import { type CostProfile, type CostSituation, checkCostProfile } from '../config/cost-profile.ts';
import { cacheGroups } from '../engine/kv-cache-spec.ts';
import { ConfigError } from '../errors.ts';
import { linkOfPairs, twoTurnsPool } from '../fleet/options.ts';
import type { Cluster } from '../fleet/types.ts';
import { fitCosts, NEW_TOKENS, recommendThreshold } from './fit-costs.ts';
import { LEAST_LENGTHS, measureStoreCosts } from './store-costs.ts';
import { type SweepHooks, type SweepPlan, sweepCluster, sweepTurns } from './sweep.ts';

export interface CalibrationOptions extends Pick<SweepHooks, 'signal' | 'onProgress'> {
  /** The program's version, written to the profile. */
  version: string;
  date: string;
  rounds?: number;
  /** Measures fewer points and rounds. */
  quick?: boolean;
  seed?: number;
}

const CONTEXTS = [16, 32, 64, 128, 256, 512];
const QUICK_CONTEXTS = [16, 64, 256];
/** If the pools are too small for others. */
const SHORT_CONTEXTS = [4, 12];
const ROUNDS = 5;
const QUICK_ROUNDS = 3;

/** Restores the cluster's settings afterwards. Rejects with the signal's reason when it aborts. */
export async function calibrate(cluster: Cluster, options: CalibrationOptions): Promise<CostProfile> {
  const { mode, link, prefill } = cluster.settings;
  const plan = calibrationPlan(cluster, options);
  const { store, connector } = cluster.settings;
  const series = await sweepCluster(cluster, plan, options);
  const { name } = connector;
  const before = store ? { connector: { name } } : {};
  await cluster.configure({ mode, link, prefixCaching: prefill.enablePrefixCaching, ...before });
  const stored = {
    rounds: plan.rounds,
    contexts: storedContexts(cluster, plan.contexts),
    seed: options.seed ?? 0,
    ...(options.signal && { signal: options.signal }),
  };
  const storeCosts = store ? await measureStoreCosts(cluster, stored) : null;
  const { pull, prefill: prefillCosts, ttft, transfer, samples } = fitCosts(series);
  const here = situationOf(cluster);
  const costs = {
    ...{ pull, prefill: prefillCosts },
    block_size: here.blockSize,
    block_bytes: here.blockBytes,
    kv_cache_groups: [...here.groups],
  };
  const most = Math.max(...plan.contexts);
  return {
    kvferry_cost_profile: 1,
    kvferry: options.version,
    date: options.date,
    model: here.model,
    weight_dtype: cluster.settings.weightDtype,
    adapter: here.adapter,
    link: here.link && {
      name: here.link.name,
      bytes_per_second: here.link.bytesPerSecond,
      latency_ms: here.link.latencyMs,
    },
    ...(cluster.settings.handover === 'streamed' && { handover: 'streamed' as const }),
    layout: cluster.settings.layout,
    ...costs,
    ...(storeCosts && { store: storeCosts }),
    fit: {
      samples,
      rounds: plan.rounds,
      least_tokens: Math.min(...plan.contexts),
      most_tokens: most,
      ttft_r2: ttft.r2,
      ttft_median_error: ttft.medianError,
      transfer_r2: transfer.r2,
      transfer_median_error: transfer.medianError,
    },
    recommended_threshold: recommendThreshold(costs, 2 * most),
  };
}

/** Turns that calibrate() serves, without those for a store. */
export const calibrationTurns = (cluster: Cluster, options: Pick<CalibrationOptions, 'quick' | 'rounds'>) =>
  sweepTurns(calibrationPlan(cluster, options));

function calibrationPlan(
  cluster: Cluster,
  { quick = false, rounds, seed }: Pick<CalibrationOptions, 'quick' | 'rounds' | 'seed'>,
): SweepPlan {
  const { settings } = cluster;
  const fitting = (quick ? QUICK_CONTEXTS : CONTEXTS).filter((tokens) => fits(tokens, settings));
  const contexts =
    fitting.length >= LEAST_LENGTHS
      ? fitting
      : SHORT_CONTEXTS.filter((tokens) => twoTurnsPool(tokens, NEW_TOKENS, settings) !== null);
  if (contexts.length < LEAST_LENGTHS)
    throw new ConfigError(
      `calibrating measures pulls from D to P for prompts of ${SHORT_CONTEXTS[0]} to ${promptOf(CONTEXTS.at(-1)!)} tokens, and the fleet has no P and D that take two lengths of them: widen the promptTokens of a roleset with P and D, or add such a roleset`,
    );
  return {
    links: [settings.link],
    contexts,
    localHits: [0],
    newTokens: NEW_TOKENS,
    rounds: rounds ?? (quick ? QUICK_ROUNDS : ROUNDS),
    ways: ['pull', 'recompute'],
    seed: seed ?? 0,
  };
}

/** The prompt of the turn after one whose `tokens` tokens D holds: these, D's answer, and the new ones. */
const promptOf = (tokens: number): number => tokens + 1 + NEW_TOKENS;

/** D holds one turn while it serves the next, so two must fit. Savings by sliding windows are ignored. */
function fits(tokens: number, settings: Cluster['settings']): boolean {
  const { blockSize, maxModelLen } = settings;
  const numBlocks = twoTurnsPool(tokens, NEW_TOKENS, settings);
  if (numBlocks === null) return false;
  const perGroup = (numBlocks - 1) / cacheGroups(settings).length;
  return promptOf(tokens) + 1 <= Math.min(maxModelLen, Math.floor(perGroup / 2) * blockSize);
}

/**
 * Contexts for measuring the store: it saves whole blocks, and does not load the last token's. If the pools are small, fewer
 * than LEAST_LENGTHS may remain.
 */
function storedContexts({ settings }: Cluster, contexts: readonly number[]): number[] {
  const { blockSize } = settings;
  const longEnough = contexts.filter((tokens) => tokens > blockSize);
  if (longEnough.length >= LEAST_LENGTHS) return contexts.filter((tokens) => tokens >= blockSize);
  return [blockSize + 1, 2 * blockSize + 1].filter((tokens) => fits(tokens, settings));
}

/** The conditions on this cluster, to compare with a profile's. */
function situationOf({ info, settings }: Cluster): CostSituation {
  return {
    model: info.model.name,
    weightDtype: settings.weightDtype,
    adapter: info.adapter.name + (info.adapter.arithmetic === 'f16' ? ', f16 arithmetic' : ''),
    link: linkOfPairs(settings),
    blockSize: settings.blockSize,
    blockBytes: info.model.blockBytes,
    groups: cacheGroups(settings),
    layout: settings.layout,
  };
}

export interface CostAwareStart extends CalibrationOptions {
  /** null: calibrate first, which takes some seconds. */
  profile: { value: CostProfile; source: string } | null;
}

/**
 * Turns the cost-aware policy on. Resolves to the active profile. Throws ConfigError if the given profile was measured under
 * other conditions.
 */
export async function startCostAware(cluster: Cluster, start: CostAwareStart): Promise<CostProfile> {
  const { profile, ...options } = start;
  if (profile) checkCostProfile(profile.value, situationOf(cluster), profile.source);
  const costProfile = profile?.value ?? (await calibrate(cluster, { ...options, quick: true }));
  await cluster.configure({ costProfile });
  return costProfile;
}
