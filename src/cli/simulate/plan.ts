/** Plans a simulation from the settings: cost model, fleet, arms and load. */
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
import { plural } from '../../measure/format.ts';
import { kvCacheSpecs, kvGroups, kvPageBytes } from '../../model/architecture/kv-groups.ts';
import type { Architecture } from '../../model/types.ts';
import { parseSimulationCosts } from '../../simulate/costs/linear.ts';
import { NAMED_COSTS } from '../../simulate/costs/published.ts';
import { inStepsOf, type SimulationCosts } from '../../simulate/costs/types.ts';
import { FALLBACK_OUTPUT, poissonArrivals } from '../../simulate/load/load.ts';
import type { Counterpart } from '../../simulate/results/against.ts';
import type { Load, SimulatedArmPlan } from '../../simulate/run.ts';
import { LOWEST_TOKEN_ID } from '../../workload/random-conversations.ts';
import type { BenchConversation, BenchTurn, Vocabulary } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';

/** Default pool size in blocks: as many as in Dynamo's mocker, whose blocks have 64 tokens. */
export const DEFAULT_BLOCKS = 16_384;

export interface PlannedSimulation {
  /** The options that real engines would be started with. */
  options: ClusterOptions;
  arms: readonly SimulatedArmPlan[];
  /** One per arm. */
  counterparts: readonly Counterpart[];
  costs: SimulationCosts;
  fleet: string;
  groups: readonly KvCacheSpec[];
  blockBytes: number;
  tokenIds: readonly [lowest: number, end: number];
  asked: string;
  /** Clients wait for each answer. */
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
      `--costs ${costs} was measured with model ${read.model}, and ${model} is simulated: give --model ${read.model}, or measure ${model} (kvferry calibrate --model ${model} --costs-out FILE)`,
    );
  return startUp === null ? read : { ...read, startMs: startUp };
}

async function costsOf(name: string, deps: Pick<CliDeps, 'readTextFile'>): Promise<SimulationCosts> {
  const named = NAMED_COSTS[name];
  if (named) return named;
  if (!isCostsFile(name)) {
    const names = Object.keys(NAMED_COSTS);
    throw new ConfigError(
      `there is no cost model '${name}'${didYouMean(name, names)}: wanted ${names.join(', ')}, or a costs file`,
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
  /** Adapter of the real engines; null: none. */
  adapter: { software: boolean } | null,
): PlannedSimulation {
  const conversations = given.conversations.map((each) => asTokens(each, vocabulary));
  const workload = { ...given, conversations };
  const open = config.arrivalRate !== null;
  const blocks = { pBlocks: config.pBlocks ?? DEFAULT_BLOCKS, dBlocks: config.dBlocks ?? DEFAULT_BLOCKS };
  const sized = inStepsOf(costs, open && !adapter ? { ...config, ...blocks } : config);
  // A simulation computes nothing, so its context may exceed the model's.
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
  return plannedOf(options, plans, loadOf(config, workload), {
    costs,
    ...kv,
    tokenIds: [LOWEST_TOKEN_ID, Math.max(vocabulary.size, LOWEST_TOKEN_ID + 1)],
    asked: askedBy(config),
    closedLoop: !open,
  });
}

/** The same load in every arm of the plans. */
export function plannedOf(
  options: ClusterOptions,
  plans: readonly ExperimentPlan[],
  load: Load,
  about: Omit<PlannedSimulation, 'options' | 'arms' | 'counterparts' | 'fleet'>,
): PlannedSimulation {
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
    fleet: countEngines(options),
    ...about,
  };
}

/** KV cache groups and block size from the model's layers. --kv-bytes-per-token changes the size alone. */
export function kvOf(
  { kvBytesPerToken, blockSize, kvDtype }: RunConfig,
  architecture: Architecture,
): Pick<PlannedSimulation, 'groups' | 'blockBytes'> {
  const kv = kvGroups(architecture);
  const blockBytes =
    kvBytesPerToken === null
      ? kvPageBytes(kv, architecture, blockSize, kvDtype)
      : Math.ceil((kvBytesPerToken * blockSize * kv.layersPerBlock) / architecture.numLayers);
  return { groups: kvCacheSpecs(architecture), blockBytes };
}

const labelOf = ({ name }: ExperimentPlan, { label }: Arm, experiments: number): string =>
  experiments > 1 ? `${label}, ${name}` : label;

function inArm(
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
    return `${arrivals === null ? 'each conversation once' : plural(arrivals, 'conversation')}, ${arrivalRate} per second, exponential gaps`;
  const active =
    maxActiveConversations === null ? '' : `, ${plural(maxActiveConversations, 'conversation')} active`;
  return `${plural(numClients, 'client')}${active}`;
}

/** Tokens of the longest conversation: its last prompt and the answer to it. */
export const longestOf = (conversations: readonly BenchConversation[]): number =>
  conversations.reduce(
    (most, { turns }) =>
      Math.max(
        most,
        turns.reduce((sum, turn) => sum + turn.inputTokens + (turn.outputTokens ?? FALLBACK_OUTPUT), 1),
      ),
    0,
  );

/** Tokenises a text conversation without the chat template, because simulated answers have no text either. */
export const asTokens = ({ id, turns }: BenchConversation, { encode }: Vocabulary): BenchConversation => ({
  id,
  turns: turns.map((turn): BenchTurn => {
    const { content, outputTokens } = turn;
    if (content.kind === 'tokens') return turn;
    const tokenIds = content.messages.flatMap((message) => encode(message.content));
    return { content: { kind: 'tokens', tokenIds }, inputTokens: tokenIds.length, outputTokens };
  }),
});

/** Throws ConfigError for benchmark settings that do not apply to a simulation. */
export function checkSimulation(config: RunConfig): void {
  const refuse = (option: string, why: string): never => {
    throw new ConfigError(`${option} has no effect in a simulation: ${why}`);
  };
  if (config.budget !== null) refuse('--budget', 'it always runs to its end; leave it out');
  if (config.paths !== null) refuse('--paths', 'kvferry bench compares KV paths');
  // Both imply a store.
  const below = (['storeDir', 'storeUrl'] as const).find((key) => config[key] !== null);
  if (config.validate) {
    const conflict = (option: string, why: string): never => {
      throw new ConfigError(`${option} and --validate are both given: ${why}leave one of them out`);
    };
    if (config.store !== null)
      conflict(switchName(below ?? 'store'), 'calibrate measures what a store costs; ');
    if (config.pullPolicy !== 'threshold') conflict('--pull-policy', '');
    if (config.faults !== null) conflict('--faults', '');
    if (config.autoscale !== null) conflict('--autoscale', 'validation compares fleets of fixed size; ');
  }
  if (config.arrivals !== null && config.arrivalRate === null)
    throw new ConfigError('--arrivals is given and --arrival-rate is not: give both, or neither');
  if (config.trace !== null && (config.inputFile !== null || config.arrivalRate !== null || config.validate))
    throw new ConfigError(
      '--trace is given with a FILE, --arrival-rate or --validate: a trace contains its own requests and times; give one of them',
    );
  if (config.thinkTime > 0 && config.arrivalRate === null && config.trace === null)
    throw new ConfigError('--think-time is given and --arrival-rate is not: give both, or neither');
}
