/** The commands that take a planned fleet, as a user would type them. */
import type { RunConfig } from '../../config/run.ts';
import type { PlanReport, PlanRow } from '../../measure/plan-report.ts';
import { quote } from '../vllm/shell.ts';

/** `asked`: what a simulation is asked, as the plan's was. `file`: of --fleet-out. */
export function commandsFor(
  row: PlanRow,
  config: RunConfig,
  { asked, engine, file }: { asked: readonly string[]; engine: PlanReport['engine']; file: string },
): string[] {
  const fleet = ['--fleet', file, '--routing', row.routing, '--mode-of-fleet', row.placement];
  const policy = [
    ...['--mode', row.mode],
    ...(row.threshold === null ? [] : ['--threshold', String(row.threshold)]),
    ...['--model', config.model],
    ...(config.prefixCaching ? [] : ['--no-prefix-caching']),
  ];
  const pools = [
    ...['--block-size', String(engine.block_size)],
    ...['--p-blocks', String(engine.p_blocks), '--d-blocks', String(engine.d_blocks)],
  ];
  const stored = row.store_bytes === null ? [] : storeOptions(row.store_bytes, config);
  const slo = [
    ...(config.sloTtft === null ? [] : ['--slo-ttft', `${config.sloTtft}ms`]),
    ...(config.sloTpot === null ? [] : ['--slo-tpot', `${config.sloTpot}ms`]),
  ];
  const costs = config.costs === 'dynamo-mocker' ? [] : ['--costs', config.costs];
  return [
    line('simulate', ...asked, ...fleet, ...policy, ...pools, ...stored, ...slo, ...costs),
    line('bench', ...fleet, ...policy, ...stored),
    line('export', targetOf(row), ...fleet, '--model', 'MODEL'),
  ];
}

const storeOptions = (bytes: number, { storeEviction, storePlace, offloadPromptOnly }: RunConfig) => [
  ...['--store', String(bytes), '--store-eviction', storeEviction, '--store-place', storePlace],
  ...(offloadPromptOnly ? [] : ['--no-offload-prompt-only']),
];

/** Who has that policy. */
const targetOf = ({ routing }: PlanRow): string =>
  ['llm-d', 'dynamo', 'sglang'].includes(routing) ? routing : 'aibrix';

const line = (...words: readonly string[]): string => ['kvferry', ...words].map(quote).join(' ');
