/** A benchmark's defaults, which follow from what the user gave, and settings that contradict each other. */
import { EXPERIMENTS, scaleDivisor, shareOf } from '../../config/bench-schema.ts';
import { BENCH_MODES } from '../../config/modes.ts';
import { routingChoices } from '../../config/routing.ts';
import { optionName, type RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { scaledThreshold } from '../../lab/multiturn/experiments.ts';
import { plural } from '../../measure/format.ts';
import { PR32553_CLIENTS } from '../../workload/pr32553.ts';
import type { BenchConversation } from '../../workload/types.ts';

/** A model that decodes fast enough on a processor, and whose prefill is worth saving. */
const DEFAULT_MODEL = 'tiny';

const DEFAULT_PRESET = { preset: 'pr32553', scale: '1/16', budget: '10m' };

/** A store as far away as the engines are from each other, and as large as the conversations under way. */
const WAYS_DEFAULTS = { link: 'none,20e6,10ms', store: '128MiB', storePlace: 'remote' };

/** For a server: the first model that it lists. */
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

/** What follows from the preset and the scale: the clients that it was published with, and a threshold divided as lengths are. */
export function workloadDefaults(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { preset, scale } = given;
  const divisor = typeof scale === 'string' ? scaleDivisor(scale) : null;
  return {
    ...(preset === 'pr32553' && clientsOf(given)),
    ...(divisor !== null && { threshold: scaledThreshold(divisor) }),
  };
}

/** As published; of more clients each has a conversation. */
const clientsOf = ({ numClients }: Readonly<Record<string, unknown>>) =>
  Number(numClients ?? 0) > PR32553_CLIENTS.maxActiveConversations ? {} : PR32553_CLIENTS;

const asksForWays = ({ paths }: Readonly<Record<string, unknown>>): boolean =>
  ![undefined, null, false, 'false'].some((none) => none === paths);

/** Policies are compared in the mode that needs them most, and where caches matter. */
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
  both('inputFile', 'preset', 'one workload is served; leave one of them out');
  both('endpoint', 'url', 'they are the same; leave one of them out');
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
      `--max-active-conversations is ${maxActiveConversations} and --num-clients is ${numClients}: a client needs one at least`,
    );
  if (maxNumRequests !== null && maxNumRequests < numClients)
    throw new ConfigError(
      `--max-num-requests is ${maxNumRequests} and --num-clients is ${numClients}: a client sends one at least`,
    );
}

/** Throws ConfigError for what ways cannot be compared with. */
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
      'a server is measured: its engines cannot be set; leave --endpoint out',
    ],
    [
      config.kvTransferConfig !== null,
      '--kv-transfer-config says which connectors there are: leave one of them out',
    ],
    [routing.length > 1, '--routing names several policies: give one'],
    [handover !== 'pull', `--handover is ${handover}: a store hands over whole blocks; leave it out`],
    [config.storeDir !== null, '--store-dir keeps KV from one way to the next: leave it out'],
    [config.storeUrl !== null, '--store-url keeps KV from one way to the next: leave it out'],
    [throughStore && config.store === null, '--store is null: give its bytes'],
    [pullPolicy === 'cost-aware' && !byCost, '--pull-policy is cost-aware: name that way in --paths'],
    [byCost && pullPolicy !== 'cost-aware', 'names cost-aware: leave --pull-policy out'],
    [
      byCost && costProfile !== null && numLinks > 1,
      `--cost-profile is of one link, and --link names ${numLinks}: give one, or leave the profile out`,
    ],
  ];
  const found = troubles.find(([wrong]) => wrong);
  if (found) throw new ConfigError(`--paths is given, and ${found[1]}`);
}

/** Throws ConfigError for an audit where nothing is decided by cost. */
function checkAudit({ audit, pullPolicy, mode, endpoint, url, routing, paths }: RunConfig): void {
  if (shareOf(audit) === 0) return;
  const why = (found: string, todo: string): never => {
    throw new ConfigError(`--audit is ${audit} and ${found}: ${todo}, or leave --audit out`);
  };
  if (endpoint !== null || url !== null)
    why(
      'a server is measured',
      'a turn can be taken back on engines of this process only; leave --endpoint out',
    );
  if (paths !== null) why('--paths is given', 'ways are compared, and none of them is audited; leave it out');
  if (routing.length > 1)
    why(`--routing is ${routing.join(',')}`, 'policies are compared, and none of them is audited; give one');
  if (pullPolicy !== 'cost-aware')
    why(
      `--pull-policy is ${pullPolicy}`,
      'an audit tells what choices by cost lose; give --pull-policy cost-aware',
    );
  if (!mode.includes('bidirectional')) why(`--mode is ${mode.join(',')}`, 'only bidirectional pulls; add it');
}

/** Throws ConfigError: what a workload must have for these settings. */
export function checkCounts(
  config: RunConfig,
  conversations: readonly BenchConversation[],
  source: string,
): void {
  const count = conversations.length;
  if (count < config.numClients)
    throw new ConfigError(
      `${source} has ${plural(count, 'conversation')} and --num-clients is ${config.numClients}: a client needs one at least`,
    );
  if (config.maxActiveConversations !== null && config.maxActiveConversations > count)
    throw new ConfigError(
      `--max-active-conversations is ${config.maxActiveConversations}, but ${source} has ${count}: give that or less`,
    );
}
