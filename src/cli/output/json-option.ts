/** `--json`, the same for every command: true writes JSON to stdout and text to stderr; a name writes JSON to that file. */
import type { RunConfig } from '../../config/run.ts';
import type { CliDeps, Output } from '../deps.ts';

/** Where tables and sentences go. */
export const textOutput = (
  { json }: Pick<RunConfig, 'json'>,
  deps: Pick<CliDeps, 'stdout' | 'stderr'>,
): Output => (json === true ? deps.stderr : deps.stdout);

/** Does nothing without --json. */
export async function writeJson(
  value: unknown,
  { json }: Pick<RunConfig, 'json'>,
  deps: Pick<CliDeps, 'stdout' | 'writeTextFile'>,
): Promise<void> {
  if (json === false) return;
  const text = `${JSON.stringify(value, null, 2)}\n`;
  if (json === true) deps.stdout.write(text);
  else await deps.writeTextFile(json, text);
}
