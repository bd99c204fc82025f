/** A benchmark's defaults, which depend on what the user gave, and checks for contradictory settings. */
import { EXPERIMENTS, scaleDivisor, shareOf } from '../../config/bench-schema.ts';
import { BENCH_MODES } from '../../config/modes.ts';
import { routingChoices } from '../../config/routing.ts';
import { optionName, type RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { fleetOf } from '../../fleet/seats.ts';
import { turnsOf } from '../../lab/multiturn/clients.ts';
import { scaledThreshold } from '../../lab/multiturn/experiments.ts';
import { plural } from '../../measure/format.ts';
import { PR32553_CLIENTS } from '../../workload/pr32553.ts';
import type { BenchConversation } from '../../workload/types.ts';

/** Decodes fast enough on a CPU, and has a prefill worth saving. */
const DEFAULT_MODEL = 'tiny';

const DEFAULT_PRESET = { preset: 'pr32553', scale: '1/16', budget: '10m' };

/** Defaults for --paths: a store as far away as the engines are from each other, large enough for the active conversations. */
const WAYS_DEFAULTS = { link: 'none,20e6,10ms', store: '128MiB', storePlace: 'remote' };

/** For a server: use the first model that it lists. */
export const SERVERS_MODEL = 'auto';

export function benchDefaults(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const remote = given.endpoint !== undefined || given.url !== undefined;
  const workload = given.inputFile === undefined && given.preset === undefined ? DEFAULT_PRESET : {};
  const ways = asksForWays(given);
  return {
    ...workload,
    ...(ways ? WAYS_DEFAULTS : {}),
    ...(ways && String(given.paths).includes('cost-aware') ? { pullPolicy: 'cost-aware' } : {}),
    model: remote ? SERVERS_MODEL : DEFAULT_MODEL,
    ...modesAndExperiments(given),
    ...workloadDefaults({ ...workload, ...given }),
  };
}

/** Defaults from the preset and the scale: the published number of clients, and a threshold divided like the lengths. */
export function workloadDefaults(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { preset, scale } = given;
  return { ...(preset === 'pr32553' && clientsOf(given)), ...scaledLike(scale) };
}

/** The default threshold at a scale, if there is one. */
export function scaledLike(scale: unknown): { threshold?: number } {
  const divisor = typeof scale === 'string' ? scaleDivisor(scale) : null;
  return divisor === null ? {} : { threshold: scaledThreshold(divisor) };
}

/** The published clients; with more clients, each has one conversation. */
const clientsOf = ({ numClients }: Readonly<Record<string, unknown>>) =>
  Number(numClients ?? 0) > PR32553_CLIENTS.maxActiveConversations ? {} : PR32553_CLIENTS;

const asksForWays = ({ paths }: Readonly<Record<string, unknown>>): boolean =>
  ![undefined, null, false, 'false'].some((none) => none === paths);

/** Policies are compared in the mode where routing matters most, and with prefix caches. */
function modesAndExperiments(given: Readonly<Record<string, unknown>>) {
  const { routing, prefixCaching } = given;
  if (asksForWays(given) && prefixCaching === undefined)
    return { experiments: ['no-prefix-caching', 'eviction'] };
  const policies = routingChoices(routing);
  const several = Array.isArray(policies) && policies.length > 1;
  if (prefixCaching !== undefined)
    return { mode: several ? ['bidirectional'] : BENCH_MODES, experiments: [cacheOnly(prefixCaching)] };
  return several
    ? { mode: ['bidirectional'], experiments: ['prefix-caching'] }
    : { mode: BENCH_MODES, experiments: [...EXPERIMENTS] };
}

const cacheOnly = (prefixCaching: unknown): string =>
  prefixCaching === false || prefixCaching === 'false' ? 'no-prefix-caching' : 'prefix-caching';

/** Throws ConfigError. */
export function checkBench(config: RunConfig, numLinks = 1): void {
  const both = (a: keyof RunConfig, b: keyof RunConfig, why: string): void => {
    if (config[a] && config[b])
      throw new ConfigError(`${optionName(a)} and ${optionName(b)} are both given: ${why}`);
  };
  both('inputFile', 'preset', 'only one workload is served; leave one of them out');
  both('endpoint', 'url', 'they mean the same; leave one of them out');
  checkAudit(config);
  checkPaths(config, numLinks);
  const {
    limitMinTokens: min,
    limitMaxTokens: max,
    numClients,
    maxActiveConversations,
    maxNumRequests,
  } = config;
  if (min > 0 !== max > 0)
    throw new ConfigError(
      `--limit-min-tokens is ${min} and --limit-max-tokens is ${max}: give both, or neither`,
    );
  if (min > 0 && min > max)
    throw new ConfigError(`--limit-min-tokens is ${min}, above --limit-max-tokens, ${max}: lower it`);
  if (maxActiveConversations !== null && maxActiveConversations < numClients)
    throw new ConfigError(
      `--max-active-conversations is ${maxActiveConversations} and --num-clients is ${numClients}: each client needs at least one`,
    );
  if (maxNumRequests !== null && maxNumRequests < numClients)
    throw new ConfigError(
      `--max-num-requests is ${maxNumRequests} and --num-clients is ${numClients}: each client sends at least one`,
    );
}

/** Throws ConfigError for settings that --paths cannot be combined with. */
function checkPaths(config: RunConfig, numLinks: number): void {
  const { paths, pullPolicy, costProfile, handover, routing } = config;
  if (paths === null) {
    if (numLinks > 1)
      throw new ConfigError(`--link names ${numLinks} links: give one, or --paths to compare over several`);
    return;
  }
  const throughStore = paths.some((name) => name !== 'recompute' && name !== 'pull');
  const byCost = paths.includes('cost-aware');
  const troubles: readonly (readonly [boolean, string])[] = [
    [
      config.endpoint !== null || config.url !== null,
      '--endpoint measures a server, whose engines cannot be configured: leave --endpoint out',
    ],
    [config.kvTransferConfig !== null, '--kv-transfer-config sets the connectors: leave one of them out'],
    [routing.length > 1, '--routing names several policies: give one'],
    [
      fleetOf(config).links.length > 0,
      '--fleet sets links of single pairs, which --link does not change: leave them out of the file',
    ],
    [handover !== 'pull', `--handover is ${handover}: a store hands over whole blocks; leave it out`],
    [config.storeDir !== null, '--store-dir keeps KV from one path to the next: leave it out'],
    [config.storeUrl !== null, '--store-url keeps KV from one path to the next: leave it out'],
    [throughStore && config.store === null, '--store is null: give its size in bytes'],
    [pullPolicy === 'cost-aware' && !byCost, '--pull-policy is cost-aware: add cost-aware to --paths'],
    [byCost && pullPolicy !== 'cost-aware', 'names cost-aware: leave --pull-policy out'],
    [
      byCost && costProfile !== null && numLinks > 1,
      `--cost-profile is for one link, and --link names ${numLinks}: give one link, or leave the profile out`,
    ],
  ];
  const found = troubles.find(([wrong]) => wrong);
  if (found) throw new ConfigError(`--paths is given, and ${found[1]}`);
}

/** Throws ConfigError for an audit of runs in which costs decide nothing. */
function checkAudit({ audit, pullPolicy, mode, endpoint, url, routing, paths }: RunConfig): void {
  if (shareOf(audit) === 0) return;
  const why = (found: string, todo: string): never => {
    throw new ConfigError(`--audit is ${audit} and ${found}: ${todo}, or leave --audit out`);
  };
  if (endpoint !== null || url !== null)
    why(
      '--endpoint measures a server',
      'a turn can be rolled back only on engines of this process; leave --endpoint out',
    );
  if (paths !== null) why('--paths is given', 'a comparison of paths has no audit; leave --paths out');
  if (routing.length > 1)
    why(`--routing is ${routing.join(',')}`, 'a comparison of policies has no audit; give one policy');
  if (pullPolicy !== 'cost-aware')
    why(
      `--pull-policy is ${pullPolicy}`,
      'an audit measures what cost-aware choices lose; give --pull-policy cost-aware',
    );
  if (!mode.includes('bidirectional')) why(`--mode is ${mode.join(',')}`, 'only bidirectional pulls; add it');
}

/** Throws ConfigError if the workload has too few conversations for these settings. */
export function checkCounts(
  config: RunConfig,
  conversations: readonly BenchConversation[],
  source: string,
): void {
  const count = conversations.length;
  if (count < config.numClients)
    throw new ConfigError(
      `${source} has ${plural(count, 'conversation')} and --num-clients is ${config.numClients}: each client needs at least one`,
    );
  if (config.maxActiveConversations !== null && config.maxActiveConversations > count)
    throw new ConfigError(
      `--max-active-conversations is ${config.maxActiveConversations}, but ${source} has ${count}: give at most that`,
    );
  if (config.warmupStep && conversations.every((conversation) => turnsOf({ conversation }, config) < 2))
    throw new ConfigError(
      `--warmup-step leaves first turns out of the measurement, and no conversation of ${source} has a second turn that is served: leave it out, or give longer conversations or a higher --max-turns`,
    );
}
