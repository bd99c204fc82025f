/** `kvferry report`: renders a saved JSON report as HTML, Markdown or JUnit, and checks assertions. Runs nothing. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { modelOf } from '../../measure/judging/baseline.ts';
import { parseReport } from '../../measure/schemas/report-kinds.ts';
import { checksOf } from '../../report/checks.ts';
import { documentOf } from '../../report/render.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { WIDTH, wrap } from '../output/format.ts';
import { textOutput } from '../output/json-option.ts';
import { keepInputs, prepareOutputs } from '../output/outputs.ts';

export const reportSpec: CommandSpec = {
  usage: 'report <file>',
  run: reportCommand,
  description:
    'Convert a JSON report from run, bench, replay or sweep to HTML, Markdown or JUnit, and check assertions on it. Runs no engines.',
  groups: ['pages', 'junit', 'asserting', 'comparing', 'general'],
  examples: [
    'kvferry report out.json --html out.html',
    "kvferry report out.json --baseline before.json --assert 'baseline.changed_counts == 0'",
  ],
};

async function reportCommand(
  config: RunConfig,
  { deps }: CommandContext,
  { args }: CommandInput,
): Promise<ExitCode> {
  const [file] = args;
  if (file === undefined)
    throw new ConfigError('no report is given: wanted kvferry report FILE, with a file that --json wrote');
  await keepInputs(config, deps, [file]);
  const report = parseReport(await deps.readTextFile(file), file);
  const outputs = await prepareOutputs(config, report.kind, modelOf(report), deps);
  const checks = checksOf(report, []);
  const { headline, subtitle } = documentOf(report, checks, null);
  const out = textOutput(config, deps);
  for (const line of [...wrap(headline, WIDTH), ...wrap(subtitle, WIDTH)]) out.write(`${line}\n`);
  for (const { name, message } of checks.filter(({ passed }) => !passed)) {
    for (const line of wrap(`FAILED: ${name}: ${message}`, WIDTH)) out.write(`${line}\n`);
  }
  const asserted = await outputs.finish(report);
  for (const kind of ['html', 'markdown', 'junit'] as const) {
    if (config[kind] !== null) out.write(`wrote ${config[kind]}\n`);
  }
  return checks.every(({ passed }) => passed) ? asserted : EXIT.failed;
}
