/** Combines command-line options and a config file into one configuration. Options override the file, which overrides defaults. */
import { parseJson } from '../../config/fields.ts';
import {
  keysInTransferConfig,
  optionName,
  parseRunConfig,
  type RunConfig,
  type RunKey,
  runConfigSchema,
} from '../../config/run.ts';
import { storeFromEnvironment } from '../../config/store-environment.ts';
import { ConfigError } from '../../errors.ts';
import { type LinkSpec, parseLink } from '../../transport/link.ts';
import type { CliDeps } from '../deps.ts';
import type { CommandSpec, Lists } from './arguments.ts';

/**
 * `lists` names settings that accept several values: the configuration gets the first of each, the returned lists get all,
 * each checked like a single value. Throws ConfigError; its message names a setting as the user wrote it: `--threshold`,
 * or `'threshold' in FILE`. `explicit`: as in CommandInput. `files`: those that were read.
 */
export async function readSettings(
  options: Readonly<Record<string, unknown>>,
  configFile: string | null,
  deps: Pick<CliDeps, 'readTextFile' | 'importModule' | 'environment'>,
  { lists: keys = [], defaults, defaultNotes }: Pick<CommandSpec, 'lists' | 'defaults' | 'defaultNotes'>,
  args: readonly string[] = [],
): Promise<{ config: RunConfig; lists: Lists; explicit: ReadonlySet<string>; files: readonly string[] }> {
  const fromFile = configFile === null ? {} : parseFile(await deps.readTextFile(configFile), configFile);
  const label = (key: string): string =>
    Object.hasOwn(fromFile, key) && !Object.hasOwn(options, key)
      ? `'${key}' in ${configFile}`
      : optionName(key);
  const explicit: Record<string, unknown> = { ...fromFile, ...options };
  const standIns = { ...defaults?.(explicit, args) };
  // vLLM's JSON comes before a command's own defaults, and conflicts only with what the user gave.
  const inJson = keysInTransferConfig(explicit.kvTransferConfig);
  for (const key of inJson) delete standIns[key];
  // Before settings are checked, because --routing may name its policies.
  if (typeof explicit.routingModule === 'string') {
    const { addOwnPolicies } = await import('../../router/policies/add-own.ts');
    standIns.routing = await addOwnPolicies(explicit.routingModule, deps);
  }
  const { settings: own, files } = await withFiles({ ...standIns, ...explicit }, deps);
  const given: Record<string, unknown> = {
    ...storeFromEnvironment(own.kvTransferConfig, deps.environment),
    ...own,
  };
  const lists: { [K in RunKey]?: unknown[] } = {};
  for (const key of keys) if (given[key] !== undefined) lists[key] = splitList(key, given[key]);
  const parseWith = (key: RunKey | null, value: unknown): RunConfig => {
    const single = { ...given };
    for (const [each, values] of Object.entries(lists)) single[each] = noneIsNull(each, values[0]);
    if (key) single[key] = noneIsNull(key, value);
    return parseRunConfig(single, label, { ...inWords(standIns), ...defaultNotes });
  };
  for (const key of keys) {
    const values = lists[key];
    // 'none' stays none, even if another option implies a different default.
    const read = (value: unknown) => (noneIsNull(key, value) === null ? value : parseWith(key, value)[key]);
    if (values) lists[key] = values.map((value) => read(value) ?? value);
  }
  const config = parseWith(null, null);
  for (const key of inJson) if (keys.includes(key)) lists[key] ??= [config[key]];
  const keysGiven = new Set([...Object.keys(explicit), ...inJson]);
  const read = [configFile, config.routingModule, ...files].filter((file) => file !== null);
  return { config, lists, explicit: keysGiven, files: read };
}

const inWords = (values: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      key,
      Array.isArray(value) ? value.join(', ') : String(value),
    ]),
  );

/** Settings whose value may be a file name, with what that file should contain. A config file may also contain the value itself. */
const FILES = {
  fleet: 'wanted rolesets, such as {"rolesets": [{"prefill": 2, "decode": 1}]}',
  autoscaleConfig:
    'wanted parameters by role, such as {"prefill": {"target": 4}}, or those of dynamo-sla (docs/fleet.md)',
  routingConfig: 'wanted parameters by policy, such as {"prefix-cache": {"imbalance": 16}}',
} as const;

async function withFiles(
  given: Record<string, unknown>,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<{ settings: Record<string, unknown>; files: string[] }> {
  const read = { ...given };
  const files: string[] = [];
  for (const [key, wanted] of Object.entries(FILES)) {
    const file = given[key];
    // The command line may also contain the JSON itself.
    if (typeof file !== 'string' || /^\s*[{[]/.test(file)) continue;
    read[key] = parseJson(await deps.readTextFile(file), file, wanted);
    files.push(file);
    if (isPlan(read[key]))
      throw new ConfigError(
        `${file} is a report of kvferry plan: ${optionName(key)} takes the file that kvferry plan --fleet-out FILE writes, which is the report's "fleet"`,
      );
  }
  return { settings: read, files };
}

const isPlan = (json: unknown): boolean =>
  typeof json === 'object' && json !== null && 'kind' in json && json.kind === 'plan';

/** For commands that serve with one policy. Throws ConfigError for more. */
export function wantOneRouting({ routing }: RunConfig): void {
  if (routing.length > 1)
    throw new ConfigError(
      `--routing names ${routing.length} policies (${routing.join(', ')}): give one, or a weight to each for a mix (a:1,b:1); kvferry bench compares several`,
    );
}

/** Splits a comma-separated list. A link may contain a comma ('10e6,1ms'), so a bare latency belongs to the part before it. */
function splitList(key: RunKey, value: unknown): unknown[] {
  if (typeof value !== 'string') return Array.isArray(value) ? value : [value];
  const parts = value.split(',').map((part) => part.trim());
  if (key !== 'link') return parts;
  return parts.reduce<string[]>((links, part) => {
    if (/^[\d.e+-]+\s*(ns|us|µs|ms|s)$/i.test(part) && links.length > 0) links.push(`${links.pop()},${part}`);
    else links.push(part);
    return links;
  }, []);
}

/** The links of --link as a list; null is as fast as this machine copies, the default. */
export const linksOf = ({ link = ['none'] }: Lists): (LinkSpec | null)[] =>
  link.map((name) => (name === 'none' ? null : parseLink(String(name))));

const noneIsNull = (key: string, value: unknown): unknown =>
  (key === 'link' || key === 'store') && value === 'none' ? null : value;

/** Whether the value is null for a setting whose default is null, as `export config` prints it. */
const isLeftOut = (key: string, value: unknown): boolean =>
  value === null &&
  Object.hasOwn(runConfigSchema.shape, key) &&
  runConfigSchema.shape[key as RunKey].parse(undefined) === null;

function parseFile(text: string, file: string): Record<string, unknown> {
  const wanted = 'wanted settings, such as {"threshold": 64}';
  const json = parseJson(text, file, wanted);
  if (typeof json === 'object' && json !== null && !Array.isArray(json))
    return Object.fromEntries(Object.entries(json).filter(([key, value]) => !isLeftOut(key, value)));
  throw new ConfigError(`${file} does not contain an object: ${wanted}`);
}
