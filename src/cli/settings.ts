/** One configuration from the command line's options and a config file: an option wins over the file, the file over defaults. */
import { optionName, parseRunConfig, type RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import type { CliDeps } from './deps.ts';

/** Throws ConfigError; its message names a setting as the user wrote it: `--threshold`, or `'threshold' in FILE`. */
export async function readSettings(
  options: Readonly<Record<string, unknown>>,
  configFile: string | null,
  deps: Pick<CliDeps, 'readTextFile'>,
  defaults?: ((given: Readonly<Record<string, unknown>>) => Record<string, unknown>) | undefined,
): Promise<RunConfig> {
  const fromFile = configFile === null ? {} : parseFile(await deps.readTextFile(configFile), configFile);
  const label = (key: string): string =>
    key in fromFile && !(key in options) ? `'${key}' in ${configFile}` : optionName(key);
  const given = { ...fromFile, ...options };
  return parseRunConfig({ ...defaults?.(given), ...given }, label);
}

function parseFile(text: string, file: string): Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new ConfigError(
      `${file} is no JSON (${(error as Error).message}): wanted settings, such as {"threshold": 64}`,
      {
        cause: error,
      },
    );
  }
  if (typeof json === 'object' && json !== null && !Array.isArray(json))
    return json as Record<string, unknown>;
  throw new ConfigError(`${file} holds no object: wanted settings, such as {"threshold": 64}`);
}
