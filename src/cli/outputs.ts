/**
 * What every measuring command does with its report beside printing tables: `--json`, `--html`, `--markdown`, `--junit`,
 * `--assert`, `--baseline`. All that can go wrong with these options is found before the work; what judges and draws a report
 * is loaded when it is wanted, which is after the work where nothing is asserted.
 */
import path from 'node:path';
import { optionName, type RunConfig } from '../config/run.ts';
import { isCostsFile } from '../config/simulate-schema.ts';
import { ConfigError } from '../errors.ts';
import type { ReportKind } from '../measure/report-head.ts';
import type { CliDeps } from './deps.ts';
import type { Outputs } from './judging.ts';

const FILES = [
  ...(['json', 'html', 'markdown', 'junit', 'csv'] as const),
  ...(['record', 'traceOut', 'fleetOut', 'costsOut'] as const),
];

/** Throws ConfigError. `model` is null where only the report tells it. */
export async function prepareOutputs(
  config: RunConfig,
  kind: ReportKind,
  model: string | null,
  deps: CliDeps,
): Promise<Outputs> {
  await checkFiles(config, deps);
  const judge = async () => (await import('./judging.ts')).prepareJudging(config, kind, model, deps);
  const prepared = config.assert.length > 0 || config.baseline !== null ? await judge() : null;
  return { finish: async (report) => (prepared ?? (await judge())).finish(report) };
}

/** Each by its option, or by what it is. */
const outputsOf = (config: RunConfig, named: Readonly<Record<string, string>>) => [
  ...FILES.map((key) => [optionName(key), config[key]] as const),
  ...Object.entries(named),
];

/** Two outputs to one file would lose the first. `named`: what an argument names, and what it is. Throws ConfigError. */
export async function checkFiles(
  config: RunConfig,
  deps: CliDeps,
  named: Readonly<Record<string, string>> = {},
): Promise<void> {
  const taken = new Map<string, string>();
  for (const [option, file] of outputsOf(config, named)) {
    if (typeof file !== 'string') continue;
    const place = path.resolve(file);
    const other = taken.get(place);
    if (other !== undefined)
      throw new ConfigError(`${other} and ${option} both write ${file}: give each a file of its own`);
    taken.set(place, option);
    if (option !== '--json') await deps.checkWritable(file);
  }
}

/**
 * What is read would be gone once something else is written over it. A baseline may: the next run then goes by this one.
 * `read`: what an argument or --config names; `named`: as for checkFiles. Throws ConfigError.
 */
export async function keepInputs(
  config: RunConfig,
  deps: Pick<CliDeps, 'plainFileId'>,
  read: readonly (string | null | undefined)[],
  named: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { inputFile, conversation, trace, costs, fromReport, costProfile, against } = config;
  // Names of what the program brings along.
  const own = [conversation === 'shipped' ? null : conversation, isCostsFile(costs) ? costs : null];
  const inputs = new Map<string, string>();
  for (const file of [...read, ...own, inputFile, trace, fromReport, costProfile, against]) {
    const id = typeof file === 'string' ? await deps.plainFileId(file) : null;
    if (id !== null) inputs.set(id, file!);
  }
  for (const [option, file] of outputsOf(config, named)) {
    const id = typeof file === 'string' && inputs.size > 0 ? await deps.plainFileId(file) : null;
    const input = id === null ? undefined : inputs.get(id);
    if (input !== undefined)
      throw new ConfigError(`${option} would be written over ${input}, which is read: name another file`);
  }
}
