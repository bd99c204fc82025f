/** The commands that take a planned fleet, as a user would type them. */
import { isUnusual, type RunConfig, type RunKey, switchName } from '../../config/run.ts';
import { DEFAULT_MAX_MODEL_LEN } from '../../fleet/from-config.ts';
import type { PlanReport, PlanRow } from '../../measure/plan-report.ts';
import { fleetFile } from '../../simulate/plan/candidate.ts';
import { keysOf, OF_DEVICES } from '../unused.ts';
import { isHereOnly } from '../vllm/engines.ts';
import { quote } from '../vllm/shell.ts';
import type { PlanWorkload } from './workload.ts';

/** What stands for one in commands for a cluster. */
const MODEL = 'MODEL';

/** What a user puts in its place; null: there is none. */
export const modelNote = ({ commands, model }: Pick<PlanReport, 'commands' | 'model'>): string | null =>
  commands.some((command) => command.endsWith(` ${MODEL}`))
    ? `${MODEL}: ${model} has generated weights and exists here only; a cluster wants one that vLLM can load, such as qwen2.5-0.5b.`
    : null;

type Chosen = Pick<
  PlanRow,
  'prefill' | 'decode' | 'routing' | 'placement' | 'mode' | 'threshold' | 'store_bytes'
>;

/** What a plan's workload is, and where. */
export interface Asking {
  /** What a simulation is asked, as the plan's was. */
  asked: readonly string[];
  onEngines: PlanWorkload['onEngines'];
  longest: PlanWorkload['longest'];
  engine: PlanReport['engine'];
  /** Sizes of pools as a user gave them; null: nobody did. */
  pools: Pick<RunConfig, 'pBlocks' | 'dBlocks'>;
  /** Of --fleet-out; null: none is written. */
  file: string | null;
}

export function commandsFor(
  row: Chosen,
  config: RunConfig,
  { asked, onEngines: [command, ...workload], longest, engine, pools: given, file }: Asking,
): string[] {
  const fleet = [...enginesOf(row, file), '--routing', row.routing, '--mode-of-fleet', row.placement];
  const policy = [
    ...['--mode', row.mode],
    ...(row.threshold === null ? [] : ['--threshold', String(row.threshold)]),
    ...(config.prefixCaching ? [] : ['--no-prefix-caching']),
  ];
  const model = ['--model', config.model];
  const pools = [
    ...['--block-size', String(engine.block_size)],
    ...['--p-blocks', String(engine.p_blocks), '--d-blocks', String(engine.d_blocks)],
  ];
  // Roomy pools that nobody asked for are the simulation's; blocks that somebody counted are of that size.
  const counted = [
    ...(given.pBlocks === null ? [] : ['--p-blocks', String(given.pBlocks)]),
    ...(given.dBlocks === null ? [] : ['--d-blocks', String(given.dBlocks)]),
  ];
  const poolsGiven = counted.length === 0 ? [] : ['--block-size', String(engine.block_size), ...counted];
  const stored = row.store_bytes === null ? [] : storeOptions(row.store_bytes, config);
  const served = [...poolsGiven, ...stored, ...optionsOf(config, onDevices)];
  // A simulated context holds what comes; engines refuse what is longer than theirs.
  const context =
    config.maxModelLen === null && longest > DEFAULT_MAX_MODEL_LEN
      ? ['--max-model-len', String(longest)]
      : [];
  const slo = [
    ...(config.sloTtft === null ? [] : ['--slo-ttft', `${config.sloTtft}ms`]),
    ...(config.sloTpot === null ? [] : ['--slo-tpot', `${config.sloTpot}ms`]),
  ];
  const costs = config.costs === 'dynamo-mocker' ? [] : ['--costs', config.costs];
  return [
    line(
      'simulate',
      ...asked,
      ...fleet,
      ...policy,
      ...model,
      ...pools,
      ...stored,
      ...slo,
      ...costs,
      ...simulated(config),
    ),
    line(
      command,
      ...workload,
      ...(command === 'replay' ? traceOptions(config) : experiment(config)),
      ...fleet,
      ...policy,
      ...model,
      ...served,
      // A replay makes room by itself, and models that exist here only have none to make.
      ...(command === 'replay' || isHereOnly(config.model) ? [] : context),
    ),
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

/** Said above, by what was chosen; or of no effect on what comes out. */
const SAID: readonly RunKey[] = [
  ...(['model', 'mode', 'threshold', 'routing', 'prefixCaching', 'blockSize', 'pBlocks', 'dBlocks'] as const),
  ...(['trace', 'limit', 'speedUp', 'costs', 'jobs'] as const),
];

const onDevices = keysOf(['cluster', 'routing', 'machine'], ...SAID);

/** All else that the plan's own simulations were set by. */
function simulated(config: RunConfig): string[] {
  const kept = onDevices.filter((key) => !OF_DEVICES.includes(key));
  const { link } = config;
  const modelled = keysOf(
    ['modelling', 'pacing'],
    ...SAID,
    ...(link === null ? ['linkSharing' as const] : []),
  );
  return [...optionsOf(config, modelled), ...traceOptions(config), ...optionsOf(config, kept)];
}

const traceOptions = (config: RunConfig): string[] =>
  config.trace === null ? [] : optionsOf(config, keysOf(['trace'], ...SAID));

/** The one that was simulated, of those that a benchmark has. */
const experiment = ({ prefixCaching }: RunConfig): string[] =>
  prefixCaching ? ['--experiments', 'prefix-caching'] : [];

/** Of those that are not as they are left out. */
const optionsOf = (config: RunConfig, keys: readonly RunKey[]): string[] =>
  keys.flatMap((key) => {
    const value = config[key];
    if (!isUnusual(key, config)) return [];
    if (typeof value === 'boolean') return [switchName(key)];
    return [switchName(key), typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });

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

/** Who has that policy. */
const targetOf = ({ routing }: Chosen): string =>
  ['llm-d', 'dynamo', 'sglang'].includes(routing) ? routing : 'aibrix';

const line = (...words: readonly string[]): string => ['kvferry', ...words].map(quote).join(' ');
