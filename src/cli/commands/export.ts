/** `kvferry export`: the tokenizer of a model as files that others load, or the effective configuration as JSON. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import type { CommandSpec } from '../arguments.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';

export const exportSpec: CommandSpec = {
  usage: 'export <what> [dir]',
  description:
    "Write a model's tokenizer to a directory (tokenizer DIR), or print every setting as JSON (config).",
  groups: ['modes', 'workload', 'sampling', 'machine', 'cluster', 'general'],
  examples: [
    'kvferry export tokenizer ./nano-tokenizer --model nano',
    'kvferry export config --threshold 0 > kvferry.json',
  ],
};

export async function exportCommand(
  args: readonly string[],
  config: RunConfig,
  { deps }: CommandContext,
): Promise<ExitCode> {
  const [what, dir] = args;
  if (what === 'config') {
    if (dir !== undefined)
      throw new ConfigError(`export config prints to stdout: leave '${dir}' out, and use > FILE`);
    deps.stdout.write(`${JSON.stringify(config, null, 2)}\n`);
    return EXIT.good;
  }
  if (what !== 'tokenizer') {
    const found = what === undefined ? 'nothing to export is named' : `there is no '${what}' to export`;
    throw new ConfigError(`${found}: wanted tokenizer DIR or config`);
  }
  if (dir === undefined)
    throw new ConfigError('export tokenizer has no directory: wanted export tokenizer DIR');
  const files = Object.entries(await deps.backend.tokenizerFiles(config.model));
  await deps.makeDirectory(dir);
  for (const [name, content] of files) await deps.writeTextFile(`${dir}/${name}`, content);
  deps.stdout.write(`wrote ${files.map(([name]) => name).join(', ')} of ${config.model} to ${dir}\n`);
  return EXIT.good;
}
