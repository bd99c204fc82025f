/**
 * `kvferry export`: a model's tokenizer as files for other programs, the effective configuration as JSON, the same
 * experiment as vLLM commands, or the same fleet as cluster manifests.
 */

import { didYouMean } from '../../config/fields.ts';
import { type RunConfig, reportedSettings } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { aibrixFiles } from '../export/aibrix.ts';
import { dynamoFiles } from '../export/dynamo.ts';
import { allText, fileText } from '../export/files.ts';
import { llmDFiles } from '../export/llm-d.ts';
import { clusterPlan } from '../export/plan.ts';
import { sglangFiles } from '../export/sglang.ts';
import { checkBench, workloadDefaults } from '../multiturn/settings.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { SHIPPED_NOTES, shippedDefaults } from '../options/shipped-conversation.ts';
import { refuseUnused, unusedByVllmExport } from '../options/unused-options.ts';
import { vllmExport, vllmText } from '../vllm/export.ts';

export const exportSpec: CommandSpec = {
  usage: 'export <what> [dir]',
  run: exportCommand,
  description:
    "Write a model's tokenizer to a directory (tokenizer DIR), or print one of: all settings as JSON (config), the same experiment as vLLM commands (vllm), the same fleet as manifests for a cluster (aibrix, llm-d, dynamo, sglang; with DIR, as files).",
  groups: [
    'fleet',
    'routing',
    'scaling',
    'modes',
    'workload',
    'bench',
    'slo',
    'serving',
    'sampling',
    'machine',
    'cluster',
    'store',
    'general',
  ],
  // A cluster's clients bring their own conversations.
  defaults: (given, [what = '']) => ({
    ...(Object.hasOwn(TARGETS, what) ? {} : shippedDefaults(given)),
    ...workloadDefaults(given),
  }),
  defaultNotes: {
    threshold: '64, divided by --scale; 32 with the shipped conversation (config, vllm)',
    preset: 'none: a conversation is exported',
    autoscale: 'no autoscaler',
    prefixCaching: SHIPPED_NOTES.prefixCaching.replace(' P', ' (config, vllm) P'),
  },
  examples: [
    'kvferry export tokenizer ./nano-tokenizer --model nano',
    'kvferry export config --threshold 0 > kvferry.json',
    'kvferry export vllm --model qwen2.5-0.5b --mode bidirectional --preset pr32553 --max-model-len 32768',
    'kvferry export aibrix --model qwen2.5-0.5b --fleet fleet.json > fleet.yaml',
    'kvferry export llm-d ./llm-d --model qwen2.5-0.5b --decode 4 --routing llm-d',
  ],
};

async function exportCommand(
  config: RunConfig,
  { deps }: CommandContext,
  { args, given }: CommandInput,
): Promise<ExitCode> {
  const [what, dir] = args;
  // For export config, json is one more setting.
  if (given.has('json') && what === 'tokenizer')
    throw new ConfigError(
      '--json has no effect on export tokenizer, which writes files for other programs; leave it out',
    );
  if (what === 'config') {
    if (dir !== undefined)
      throw new ConfigError(`export config prints to stdout: leave '${dir}' out, and use > FILE`);
    deps.stdout.write(`${JSON.stringify(reportedSettings(config), null, 2)}\n`);
    if (given.has('json') && typeof config.json === 'string')
      deps.stderr.write(
        `export config prints to stdout, --json ${config.json} as one of the settings: use > FILE for a file\n`,
      );
    return EXIT.good;
  }
  if (what === 'vllm') {
    if (dir !== undefined)
      throw new ConfigError(`export vllm prints to stdout: leave '${dir}' out, and use > FILE`);
    return exportVllm(config, given, deps);
  }
  if (what !== undefined && Object.hasOwn(TARGETS, what))
    return exportCluster(what as Target, dir, config, deps);
  if (what !== 'tokenizer') {
    const found = what === undefined ? 'nothing to export is given' : `there is no '${what}' to export`;
    const known = ['tokenizer', 'config', 'vllm', ...Object.keys(TARGETS)];
    throw new ConfigError(
      `${found}: wanted tokenizer DIR, config, vllm, or one of ${Object.keys(TARGETS).join(', ')}${didYouMean(what, known)}`,
    );
  }
  if (dir === undefined)
    throw new ConfigError('export tokenizer has no directory: wanted export tokenizer DIR');
  const files = Object.entries(await deps.backend.tokenizerFiles(config.model));
  await deps.makeDirectory(dir);
  for (const [name, content] of files) await deps.writeTextFile(`${dir}/${name}`, content);
  deps.stdout.write(`wrote ${files.map(([name]) => name).join(', ')} of ${config.model} to ${dir}\n`);
  return EXIT.good;
}

async function exportVllm(
  config: RunConfig,
  given: CommandInput['given'],
  deps: CommandContext['deps'],
): Promise<ExitCode> {
  checkBench(config);
  refuseUnused(given, unusedByVllmExport(config));
  const architecture = await deps.backend.architecture(config.model);
  const plan = await vllmExport(config, clusterOptions(config, architecture, false), deps);
  const json = `${JSON.stringify(plan, null, 2)}\n`;
  if (typeof config.json === 'string') await deps.writeTextFile(config.json, json);
  deps.stdout.write(config.json === true ? json : vllmText(plan));
  return EXIT.good;
}

/** Turns a cluster plan into the target's files. */
const TARGETS = {
  aibrix: aibrixFiles,
  'llm-d': llmDFiles,
  dynamo: dynamoFiles,
  sglang: sglangFiles,
} as const;
type Target = keyof typeof TARGETS;

async function exportCluster(
  target: Target,
  dir: string | undefined,
  config: RunConfig,
  deps: CommandContext['deps'],
): Promise<ExitCode> {
  const architecture = await deps.backend.architecture(config.model);
  const files = TARGETS[target](clusterPlan(config, clusterOptions(config, architecture, false)));
  const json = `${JSON.stringify(files, null, 2)}\n`;
  if (typeof config.json === 'string') await deps.writeTextFile(config.json, json);
  if (dir === undefined) {
    deps.stdout.write(config.json === true ? json : allText(files));
    return EXIT.good;
  }
  await deps.makeDirectory(dir);
  for (const file of files) await deps.writeTextFile(`${dir}/${file.name}`, fileText(file));
  const names = files.map(({ name }) => name).join(', ');
  (config.json === true ? deps.stderr : deps.stdout).write(`wrote ${names} to ${dir}\n`);
  if (config.json === true) deps.stdout.write(json);
  return EXIT.good;
}
