/** Shell commands that use a planned fleet. */
import {
  isUnusual,
  keysOf,
  type RunConfig,
  type RunKey,
  reportedSettings,
  runConfigSchema,
  switchName,
} from '../../config/run.ts';
import { DEFAULT_MAX_MODEL_LEN } from '../../fleet/from-config.ts';
import { scaledThreshold } from '../../lab/multiturn/experiments.ts';
import { formatCount } from '../../measure/format.ts';
import type { PlanReport, PlanRow } from '../../measure/schemas/plan-report.ts';
import { countParameters, presetArchitecture, presetNames } from '../../model/architecture/presets.ts';
import { fleetFile } from '../../simulate/plan/candidate.ts';
import { divisorForBlocks } from '../../workload/traces/scale.ts';
import { OF_DEVICES } from '../options/unused-options.ts';
import { isHereOnly } from '../vllm/engines.ts';
import { quote } from '../vllm/shell.ts';
import type { OnEngines, PlanWorkload } from './workload.ts';

/** Of engines here: vLLM's. Plans take larger blocks, which simulate faster. */
const DEFAULT_BLOCK_SIZE = runConfigSchema.shape.blockSize.parse(undefined);

/** Placeholder for the model in cluster commands. */
const MODEL = 'MODEL';

/** Explains the placeholder; null if no command contains it. */
export function modelNote({ commands, model }: Pick<PlanReport, 'commands' | 'model'>): string | null {
  const exporting = commands.find((command) => command.endsWith(` ${MODEL}`));
  if (exporting === undefined) return null;
  const [, given] = / --max-model-len (\d+)/.exec(exporting) ?? [];
  const context = Number(given ?? DEFAULT_MAX_MODEL_LEN);
  const fits = smallestOfVllm(context);
  return `${MODEL}: ${model} has random weights and exists only in kvferry; a cluster needs a model that vLLM can load, ${fits === null ? `with a context of at least ${formatCount(context)} tokens` : `such as ${fits}`}.`;
}

/** The smallest preset that vLLM can load and that goes up to `context` tokens; null: there is none. */
function smallestOfVllm(context: number): string | null {
  const fitting = presetNames
    .filter((name) => !isHereOnly(name))
    .map((name) => presetArchitecture(name))
    .filter(({ maxModelLen }) => maxModelLen >= context)
    .toSorted((a, b) => countParameters(a) - countParameters(b));
  return fitting[0]?.name ?? null;
}

type Chosen = Pick<
  PlanRow,
  'prefill' | 'decode' | 'routing' | 'placement' | 'mode' | 'threshold' | 'store_bytes'
>;

/** A plan's workload and engine sizes. */
export interface Asking {
  /** Workload options for a simulation like the plan's. */
  workloadOptions: readonly string[];
  onEngines: OnEngines | null;
  longest: PlanWorkload['longest'];
  traceBlockSize: PlanWorkload['traceBlockSize'];
  engine: PlanReport['engine'];
  /** Pool sizes as the user gave them; null: not given. */
  pools: Pick<RunConfig, 'pBlocks' | 'dBlocks'>;
  /** File of --fleet-out; null: none. */
  file: string | null;
}

export function commandsFor(
  row: Chosen,
  config: RunConfig,
  { workloadOptions, onEngines, longest, traceBlockSize, engine, pools: given, file }: Asking,
): string[] {
  const fleet = [...enginesOf(row, file), '--routing', row.routing, '--mode-of-fleet', row.placement];
  const policyAt = (threshold: number | null) => [
    ...['--mode', row.mode],
    ...(threshold === null ? [] : ['--threshold', String(threshold)]),
    ...(config.prefixCaching ? [] : ['--no-prefix-caching']),
  ];
  const policy = policyAt(row.threshold);
  const model = ['--model', config.model];
  const pools = [
    ...['--block-size', String(engine.block_size)],
    ...['--p-blocks', String(engine.p_blocks), '--d-blocks', String(engine.d_blocks)],
  ];
  // Default pools are large and only for simulation. Pools that the user gave in blocks keep the plan's block size.
  const counted = [
    ...(given.pBlocks === null ? [] : ['--p-blocks', String(given.pBlocks)]),
    ...(given.dBlocks === null ? [] : ['--d-blocks', String(given.dBlocks)]),
  ];
  const poolsGiven = counted.length === 0 ? [] : ['--block-size', String(engine.block_size), ...counted];
  const stored = row.store_bytes === null ? [] : storeOptions(row.store_bytes, config);
  const served = [...poolsGiven, ...stored, ...optionsOf(config, onDevices)];
  const blockSize = poolsGiven.length === 0 ? DEFAULT_BLOCK_SIZE : engine.block_size;
  // Without a --trace-scale, replay divides the lengths, which are in full here.
  const divides = config.traceScale === null && traceBlockSize !== null;
  const divisor = divides ? divisorForBlocks(traceBlockSize, blockSize) : 1;
  // 0 and null, which always pull and never, are so at any scale.
  const replayed = row.threshold ? scaledThreshold(divisor ?? 1, row.threshold) : row.threshold;
  // A simulated context grows to fit; real engines refuse longer requests.
  const context =
    config.maxModelLen === null && longest > DEFAULT_MAX_MODEL_LEN
      ? ['--max-model-len', String(longest)]
      : [];
  const slo = [
    ...(config.sloTtft === null ? [] : ['--slo-ttft', `${config.sloTtft}ms`]),
    ...(config.sloTpot === null ? [] : ['--slo-tpot', `${config.sloTpot}ms`]),
  ];
  const costs = config.costs === 'dynamo-mocker' ? [] : ['--costs', config.costs];
  const measured = ([command, ...workload]: OnEngines): string =>
    line(
      command,
      ...workload,
      ...(command === 'replay' ? traceOptions(config) : experiment(config)),
      ...fleet,
      ...policyAt(command === 'replay' ? replayed : row.threshold),
      ...model,
      ...served,
      // replay sizes its own context, and models that exist only in kvferry cannot exceed theirs.
      ...(command === 'replay' || isHereOnly(config.model) ? [] : context),
    );
  return [
    line(
      'simulate',
      ...workloadOptions,
      ...fleet,
      ...policy,
      ...model,
      ...pools,
      ...stored,
      ...slo,
      ...costs,
      ...simulated(config),
    ),
    ...(onEngines === null || divisor === null ? [] : [measured(onEngines)]),
    line(
      'export',
      targetOf(row),
      ...fleet,
      ...policy,
      ...served,
      ...context,
      ...['--model', isHereOnly(config.model) ? MODEL : config.model],
    ),
  ];
}

function enginesOf(row: Chosen, file: string | null): string[] {
  if (file !== null) return ['--fleet', file];
  const fleet = fleetFile(row);
  return fleet.rolesets.length === 1
    ? ['--prefill', String(row.prefill), '--decode', String(row.decode)]
    : ['--fleet', JSON.stringify(fleet)];
}

/** Settings that commandsFor already writes, or that do not affect results. */
const SAID: readonly RunKey[] = [
  ...(['model', 'mode', 'threshold', 'routing', 'prefixCaching', 'blockSize', 'pBlocks', 'dBlocks'] as const),
  ...(['trace', 'limit', 'speedUp', 'costs', 'jobs'] as const),
];

const onDevices = keysOf(['cluster', 'routing', 'machine'], ...SAID);

/** The other settings of the plan's simulations. */
function simulated(config: RunConfig): string[] {
  const modelKeys = onDevices.filter((key) => !OF_DEVICES.includes(key));
  const { link } = config;
  const modelled = keysOf(
    ['modelling', 'pacing'],
    ...SAID,
    ...(link === null ? ['linkSharing' as const] : []),
  );
  return [...optionsOf(config, modelled), ...traceOptions(config), ...optionsOf(config, modelKeys)];
}

const traceOptions = (config: RunConfig): string[] =>
  config.trace === null ? [] : optionsOf(config, keysOf(['trace'], ...SAID));

/** The benchmark experiment that matches the simulation. */
const experiment = ({ prefixCaching }: RunConfig): string[] =>
  prefixCaching ? ['--experiments', 'prefix-caching'] : [];

/** Options for the settings that differ from their defaults. A store's URL is shown without its password, as in reports. */
const optionsOf = (config: RunConfig, keys: readonly RunKey[]): string[] => {
  const shown = reportedSettings(config);
  return keys.flatMap((key) => {
    const value = shown[key];
    if (!isUnusual(key, config)) return [];
    if (typeof value === 'boolean') return [switchName(key)];
    return [switchName(key), typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
};

const storeOptions = (bytes: number, config: RunConfig) => [
  ...['--store', String(bytes), '--store-eviction', config.storeEviction, '--store-place', config.storePlace],
  ...(config.offloadPromptOnly ? [] : ['--no-offload-prompt-only']),
  ...optionsOf(config, BELOW_A_STORE),
];

const BELOW_A_STORE: readonly RunKey[] = [
  'storeDir',
  'storeUrl',
  'storeDirSize',
  'storeTtl',
  'storeWrite',
  'storePrefetch',
];

/** The export target that implements the routing policy. */
const targetOf = ({ routing }: Chosen): string =>
  ['llm-d', 'dynamo', 'sglang'].includes(routing) ? routing : 'aibrix';

const line = (...words: readonly string[]): string => ['kvferry', ...words].map(quote).join(' ');
