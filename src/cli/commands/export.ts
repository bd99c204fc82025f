/**
 * `kvferry export`: the tokenizer of a model as files that others load, the effective configuration as JSON, or the same
 * experiment as commands for vLLM.
 */
import { type RunConfig, reportedSettings } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { Asked, CommandSpec } from '../arguments.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import { vllmExport, vllmText } from '../vllm/export.ts';

export const exportSpec: CommandSpec = {
  usage: 'export <what> [dir]',
  run: exportCommand,
  description:
    "Write a model's tokenizer to a directory (tokenizer DIR), print every setting as JSON (config), or print the same experiment as commands for vLLM (vllm).",
  groups: ['modes', 'workload', 'bench', 'serving', 'sampling', 'machine', 'cluster', 'store', 'general'],
  examples: [
    'kvferry export tokenizer ./nano-tokenizer --model nano',
    'kvferry export config --threshold 0 > kvferry.json',
    'kvferry export vllm --model qwen2.5-0.5b --mode bidirectional --preset pr32553',
  ],
};

async function exportCommand(
  config: RunConfig,
  { deps }: CommandContext,
  { args }: Asked,
): Promise<ExitCode> {
  const [what, dir] = args;
  if (what === 'config') {
    if (dir !== undefined)
      throw new ConfigError(`export config prints to stdout: leave '${dir}' out, and use > FILE`);
    deps.stdout.write(`${JSON.stringify(reportedSettings(config), null, 2)}\n`);
    return EXIT.good;
  }
  if (what === 'vllm') {
    if (dir !== undefined)
      throw new ConfigError(`export vllm prints to stdout: leave '${dir}' out, and use > FILE`);
    return exportVllm(config, deps);
  }
  if (what !== 'tokenizer') {
    const found = what === undefined ? 'nothing to export is named' : `there is no '${what}' to export`;
    throw new ConfigError(`${found}: wanted tokenizer DIR, config or vllm`);
  }
  if (dir === undefined)
    throw new ConfigError('export tokenizer has no directory: wanted export tokenizer DIR');
  const files = Object.entries(await deps.backend.tokenizerFiles(config.model));
  await deps.makeDirectory(dir);
  for (const [name, content] of files) await deps.writeTextFile(`${dir}/${name}`, content);
  deps.stdout.write(`wrote ${files.map(([name]) => name).join(', ')} of ${config.model} to ${dir}\n`);
  return EXIT.good;
}

async function exportVllm(config: RunConfig, deps: CommandContext['deps']): Promise<ExitCode> {
  const architecture = await deps.backend.architecture(config.model);
  const plan = await vllmExport(config, clusterOptions(config, architecture, false), deps);
  const json = `${JSON.stringify(plan, null, 2)}\n`;
  if (typeof config.json === 'string') await deps.writeTextFile(config.json, json);
  deps.stdout.write(config.json === true ? json : vllmText(plan));
  return EXIT.good;
}
