/**
 * What every measuring command does with its report beside printing tables: `--json`, `--html`, `--markdown`, `--junit`,
 * `--assert`, `--baseline`. All that can go wrong with these options is found before the work; what judges and draws a report
 * is loaded when it is wanted, which is after the work where nothing is asserted.
 */
import type { RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import type { ReportKind } from '../measure/report-head.ts';
import type { CliDeps } from './deps.ts';
import type { Outputs } from './judging.ts';

const FILES = ['html', 'markdown', 'junit'] as const;

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

/** Two outputs to one file would lose the first. */
export async function checkFiles(config: RunConfig, deps: CliDeps): Promise<void> {
  const taken = new Map<string, string>();
  if (typeof config.json === 'string') taken.set(config.json, '--json');
  for (const name of FILES) {
    const file = config[name];
    if (file === null) continue;
    const other = taken.get(file);
    if (other !== undefined)
      throw new ConfigError(`${other} and --${name} both write ${file}: give each a file of its own`);
    taken.set(file, `--${name}`);
    await deps.checkWritable(file);
  }
}
