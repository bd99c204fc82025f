/**
 * Report options of the measuring commands: `--json`, `--html`, `--markdown`, `--junit`, `--assert`, `--baseline`. Errors
 * in these options are found before the work starts. The code that checks and renders reports is loaded on demand: after
 * the work if nothing is asserted.
 */
import path from 'node:path';
import { optionName, type RunConfig } from '../../config/run.ts';
import { isCostsFile } from '../../config/simulate-schema.ts';
import { ConfigError } from '../../errors.ts';
import type { ReportKind } from '../../measure/schemas/report-head.ts';
import type { CliDeps } from '../deps.ts';
import type { Outputs } from './judging.ts';

const FILES = [
  ...(['json', 'html', 'markdown', 'junit', 'csv'] as const),
  ...(['record', 'traceOut', 'fleetOut', 'costsOut'] as const),
];

/** Throws ConfigError. `model` is null if only the report will say. */
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

/** Output files with their option, or a description. */
const outputsOf = (config: RunConfig, named: Readonly<Record<string, string>>) => [
  ...FILES.map((key) => [optionName(key), config[key]] as const),
  ...Object.entries(named),
];

/** Checks that outputs are writable and distinct. `named`: files from arguments, keyed by description. Throws ConfigError. */
export async function checkFiles(
  config: RunConfig,
  deps: CliDeps,
  named: Readonly<Record<string, string>> = {},
): Promise<void> {
  const taken = new Map<string, string>();
  for (const [option, file] of outputsOf(config, named)) {
    if (typeof file !== 'string') continue;
    // A link to an existing file is that file.
    const place = (await deps.plainFileId(file)) ?? path.resolve(file);
    const other = taken.get(place);
    if (other !== undefined)
      throw new ConfigError(`${other} and ${option} both write ${file}: give each its own file`);
    taken.set(place, option);
    if (option !== '--json') await deps.checkWritable(file);
  }
}

/**
 * Refuses outputs that would overwrite an input. A baseline may be overwritten, so that the next run compares with this
 * one. `read`: input files from arguments, --config and settings; `named`: as for checkFiles. Throws ConfigError.
 */
export async function keepInputs(
  config: RunConfig,
  deps: Pick<CliDeps, 'plainFileId'>,
  read: readonly (string | null | undefined)[],
  named: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { inputFile, conversation, trace, costs, fromReport, costProfile, against } = config;
  // Built-in names are not files.
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
      throw new ConfigError(`${option} would overwrite ${input}, which is an input: name another file`);
  }
}
