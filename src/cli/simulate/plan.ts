/** From a user's settings to what is simulated: whose times, which fleet in which arms, who asks when. */
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { KvCacheSpec } from '../../config/engine.ts';
import { didYouMean } from '../../config/fields.ts';
import { type RunConfig, switchName } from '../../config/run.ts';
import { isCostsFile } from '../../config/simulate-schema.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { countEngines } from '../../fleet/options.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { planBench } from '../../lab/multiturn/cluster-bench.ts';
import type { Arm, ExperimentPlan } from '../../lab/multiturn/experiments.ts';
import type { Workload } from '../../lab/multiturn/report.ts';
import { activeOf, serveOptions } from '../../lab/multiturn/settings.ts';
import { kvCacheSpecs, kvGroups, kvPageBytes } from '../../model/kv-groups.ts';
import type { Architecture } from '../../model/types.ts';
import type { Counterpart } from '../../simulate/against.ts';
import { parseSimulationCosts } from '../../simulate/costs/linear.ts';
import { NAMED_COSTS } from '../../simulate/costs/published.ts';
import { inStepsOf, type SimulationCosts } from '../../simulate/costs/types.ts';
import { FALLBACK_OUTPUT, poissonArrivals } from '../../simulate/load.ts';
import type { Load, SimulatedArmPlan } from '../../simulate/run.ts';
import { LOWEST_TOKEN_ID } from '../../workload/made.ts';
import type { BenchConversation, BenchTurn, Vocabulary } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';
import { plural } from '../format.ts';

/** Of Dynamo's mocker: where a fleet is modelled nobody says how large its pools are. */
export const DEFAULT_BLOCKS = 16_384;

export interface PlannedSimulation {
  /** What real engines would be started with. */
  options: ClusterOptions;
  arms: readonly SimulatedArmPlan[];
  /** One an arm. */
  counterparts: readonly Counterpart[];
  costs: SimulationCosts;
  fleet: string;
  groups: readonly KvCacheSpec[];
  blockBytes: number;
  tokenIds: readonly [lowest: number, end: number];
  asked: string;
  /** By clients who wait for each answer. */
  closedLoop: boolean;
}

/** Throws ConfigError. */
export async function readCosts(
  { costs, startUp, model }: Pick<RunConfig, 'costs' | 'startUp' | 'model'>,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<SimulationCosts> {
  const read = await costsOf(costs, deps);
  if (read.model !== null && read.model !== model)
    throw new ConfigError(
      `--costs ${costs} has times of model ${read.model}, and ${model} is simulated: give --model ${read.model}, or measure ${model} (kvferry calibrate --model ${model} --costs-out FILE)`,
    );
  return startUp === null ? read : { ...read, startMs: startUp };
}

async function costsOf(name: string, deps: Pick<CliDeps, 'readTextFile'>): Promise<SimulationCosts> {
  const named = NAMED_COSTS[name];
  if (named) return named;
  if (!isCostsFile(name)) {
    const names = Object.keys(NAMED_COSTS);
    throw new ConfigError(
      `there are no costs '${name}'${didYouMean(name, names)}: wanted ${names.join(', ')}, or a file of costs`,
    );
  }
  return parseSimulationCosts(await deps.readTextFile(name), name);
}

/** Throws ConfigError for settings that contradict each other or the workload. */
export function planSimulation(
  config: RunConfig,
  costs: SimulationCosts,
  given: Workload,
  vocabulary: Vocabulary,
  architecture: Architecture,
  /** What real engines run on; null: there are none. */
  adapter: { software: boolean } | null,
): PlannedSimulation {
  const conversations = given.conversations.map((each) => asTokens(each, vocabulary));
  const workload = { ...given, conversations };
  const open = config.arrivalRate !== null;
  const blocks = { pBlocks: config.pBlocks ?? DEFAULT_BLOCKS, dBlocks: config.dBlocks ?? DEFAULT_BLOCKS };
  const sized = inStepsOf(costs, open && !adapter ? { ...config, ...blocks } : config);
  // Where nothing is computed a context may be longer than the model's.
  const longest = Math.max(architecture.maxModelLen, config.maxModelLen ?? longestOf(conversations));
  const kv = kvOf(config, architecture);
  const like = adapter
    ? clusterOptions(sized, architecture, adapter.software)
    : clusterOptions(
        { ...sized, maxModelLen: config.maxModelLen ?? longest },
        { ...architecture, maxModelLen: longest },
        false,
      );
  const { options, plans } = planBench(sized, workload, { ...like, kvCacheGroups: kv.groups });
  const load = loadOf(config, workload);
  return {
    options,
    arms: plans.flatMap((plan) =>
      plan.arms.map((arm) => ({
        label: labelOf(plan, arm, plans.length),
        options: inArm(options, plan, arm),
        load,
      })),
    ),
    counterparts: plans.flatMap(({ key, arms }) => arms.map(({ label }) => ({ experiment: key, label }))),
    costs,
    fleet: countEngines(options),
    ...kv,
    tokenIds: [LOWEST_TOKEN_ID, Math.max(vocabulary.size, LOWEST_TOKEN_ID + 1)],
    asked: askedBy(config),
    closedLoop: !open,
  };
}

/** By the model's layers, or as if all kept everything. */
export function kvOf(
  { kvBytesPerToken, blockSize, kvDtype }: RunConfig,
  architecture: Architecture,
): Pick<PlannedSimulation, 'groups' | 'blockBytes'> {
  if (kvBytesPerToken !== null)
    return { groups: [{ kind: 'full' }], blockBytes: kvBytesPerToken * blockSize };
  const blockBytes = kvPageBytes(kvGroups(architecture), architecture, blockSize, kvDtype);
  return { groups: kvCacheSpecs(architecture), blockBytes };
}

const labelOf = ({ name }: ExperimentPlan, { label }: Arm, experiments: number): string =>
  experiments > 1 ? `${label}, ${name}` : label;

export function inArm(
  options: ClusterOptions,
  plan: ExperimentPlan,
  { mode, threshold, routing, allFullKv }: Arm,
): ClusterOptions {
  const { nixl } = options.connector;
  return {
    ...options,
    mode,
    ...(routing ? { routing } : {}),
    ...(allFullKv === undefined ? {} : { allFullKv }),
    prefill: { ...options.prefill, numBlocks: plan.pBlocks, enablePrefixCaching: plan.prefixCaching },
    decode: { ...options.decode, numBlocks: plan.dBlocks },
    connector: { ...options.connector, nixl: { ...nixl, recomputeThreshold: threshold } },
  };
}

function loadOf(config: RunConfig, { conversations }: Workload): Load {
  const { arrivalRate: perSecond, arrivals, thinkTime } = config;
  if (perSecond === null) {
    const never = { now: () => 0, sleep: async () => {} };
    const {
      auditor: _auditor,
      seed: _seed,
      now: _now,
      sleep: _sleep,
      ...clients
    } = serveOptions(config, never);
    return { kind: 'clients', conversations, clients: { ...clients, maxActive: activeOf(config) } };
  }
  const count = arrivals ?? conversations.length;
  return {
    kind: 'arrivals',
    arrivals: (seed) => poissonArrivals(conversations, { perSecond, count, seed }),
    thinkMs: thinkTime,
  };
}

function askedBy({ arrivalRate, arrivals, numClients, maxActiveConversations }: RunConfig): string {
  if (arrivalRate !== null)
    return `${arrivals === null ? 'each once' : plural(arrivals, 'conversation')}, ${arrivalRate} a second, exponential gaps`;
  const active =
    maxActiveConversations === null ? '' : `, ${plural(maxActiveConversations, 'conversation')} active`;
  return `${plural(numClients, 'client')}${active}`;
}

/** Tokens of the longest conversation: of its last prompt, and the answer to that. */
export const longestOf = (conversations: readonly BenchConversation[]): number =>
  conversations.reduce(
    (most, { turns }) =>
      Math.max(
        most,
        turns.reduce((sum, turn) => sum + turn.inputTokens + (turn.outputTokens ?? FALLBACK_OUTPUT), 1),
      ),
    0,
  );

/** Text by the model's tokenizer, without its chat template: a simulated answer has no text either. */
export const asTokens = ({ id, turns }: BenchConversation, { encode }: Vocabulary): BenchConversation => ({
  id,
  turns: turns.map((turn): BenchTurn => {
    const { content, outputTokens } = turn;
    if (content.kind === 'tokens') return turn;
    const tokenIds = content.messages.flatMap((message) => encode(message.content));
    return { content: { kind: 'tokens', tokenIds }, inputTokens: tokenIds.length, outputTokens };
  }),
});

/** Throws ConfigError for settings of a benchmark that mean nothing where time does not pass. */
export function checkSimulation(config: RunConfig): void {
  const refuse = (option: string, why: string): never => {
    throw new ConfigError(`${option} is of no use to a simulation: ${why}`);
  };
  if (config.budget !== null) refuse('--budget', 'it takes as long as it takes; leave it out');
  if (config.paths !== null) refuse('--paths', 'the ways that KV can take are compared by kvferry bench');
  // Either brings a store with it.
  const below = (['storeDir', 'storeUrl'] as const).find((key) => config[key] !== null);
  if (config.store !== null && config.validate)
    refuse(
      switchName(below ?? 'store'),
      'with --validate: what it costs is measured by calibrate; leave one of them out',
    );
  if (config.pullPolicy !== 'threshold' && config.validate)
    refuse('--pull-policy', 'with --validate; leave one of them out');
  if (config.faults !== null && config.validate) refuse('--faults', 'with --validate; leave one of them out');
  if (config.autoscale !== null && config.validate)
    throw new ConfigError('--autoscale and --validate are both given: the fleets compared are as they start');
  if (config.arrivals !== null && config.arrivalRate === null)
    throw new ConfigError('--arrivals is given and --arrival-rate is not: give both, or neither');
  if (config.trace !== null && (config.inputFile !== null || config.arrivalRate !== null || config.validate))
    refuse(
      '--trace',
      'with a FILE, --arrival-rate or --validate; it says itself what comes when. Give one of them',
    );
  if (config.thinkTime > 0 && config.arrivalRate === null && config.trace === null)
    throw new ConfigError('--think-time is given and --arrival-rate is not: give both, or neither');
  if (scaleDivisor(config.scale) === null) refuse('--scale', 'it is no scale');
}
