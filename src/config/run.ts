/**
 * Turns user input (options, a config file, a URL) into a complete, checked configuration, or into a one-sentence error
 * that says what was found, what was wanted and what to do. Does not need a model or an adapter: whatever depends on
 * them is decided later.
 */
import type { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { parsedJson } from './cluster-schema.ts';
import { didYouMean, nearest, wantedBy } from './fields.ts';
import { fleetFields } from './fleet-schema.ts';
import { folderTierSchema, type NixlExtra } from './kv-connectors.ts';
import { extraKeysOf, kvTransferConfigSchema, namedConnectors } from './kv-transfer.ts';
import {
  fieldMeta,
  type RunConfig,
  type RunKey,
  runConfigSchema,
  runKeys,
  SECRET_KEYS,
} from './run-schema.ts';
import { cutShort, shownJson } from './shown.ts';
import { keepsKv } from './store.ts';

export { HANDOVERS, type Handover, type KvLayout } from './cluster-schema.ts';
export {
  changesResults,
  type FieldGroup,
  fieldMeta,
  keysOf,
  type RunConfig,
  type RunConfigInput,
  type RunKey,
  reportedSettings,
  runConfigSchema,
  runKeys,
} from './run-schema.ts';

/** The value of `--conversation` for the shipped conversation. */
export const SHIPPED = 'shipped';

/** Store memory when only --store-dir or --store-url is given. Bytes. */
const UNLESS_GIVEN = 64 * 2 ** 20;

/** Settings of a generated conversation. */
export const MADE_CONVERSATION_KEYS = [
  'turns',
  'systemTokens',
  'userTokens',
  'outputTokens',
  'conversations',
] as const;

/** NIXL settings that --kv-transfer-config can also contain, by vLLM's name. */
const TWICE: readonly { key: RunKey; vllm: keyof NixlExtra }[] = [
  { key: 'threshold', vllm: 'kv_recompute_threshold' },
  { key: 'ttl', vllm: 'decoder_kv_blocks_ttl' },
  { key: 'lease', vllm: 'kv_lease_duration' },
];

export const kebab = (key: string): string => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
export const camel = (name: string): string =>
  name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** How a key is written where it is an object's: `'pBlocks'`. */
export const quoted = (key: string): string => `'${key}'`;

/** How a key is written on the command line: `--p-blocks`, `--no-prefix-caching`. */
export const optionName = (key: string): string => `--${kebab(key)}`;

/** The option that changes a setting from its default: `--no-…` for a switch that turns something off. */
export const switchName = (key: RunKey): string =>
  fieldMeta(key).negated ? `--no-${kebab(key)}` : optionName(key);

/** Whether the setting differs from its default. */
export const isUnusual = (key: RunKey, config: RunConfig): boolean =>
  JSON.stringify(config[key]) !== JSON.stringify(runConfigSchema.shape[key].parse(undefined));

/**
 * Checks an object of settings and fills in the defaults. For messages, `label` gives a key as the user wrote it, and
 * `fallbacks` describes defaults that differ from the schema's. The result is frozen and parses to itself. Throws
 * ConfigError.
 */
export function parseRunConfig(
  input: unknown,
  label: (key: string) => string = quoted,
  fallbacks: Fallbacks = {},
): RunConfig {
  const result = runConfigSchema.safeParse(input ?? {});
  if (!result.success) {
    const { issues } = result.error;
    // A missing key may be a misspelt one.
    const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]!;
    throw new ConfigError(sentence(issue, input, label, fallbacks));
  }
  const config: { -readonly [K in RunKey]: RunConfig[K] } = result.data;
  const given = (key: RunKey): boolean =>
    (input as Record<string, unknown> | null | undefined)?.[key] !== undefined;

  if (config.conversation !== null) refuseGeneratedConversation(config, given, label);
  if (config.kvTransferConfig !== null) mergeTransferConfig(config, given, label);
  if (keepsKv(config)) config.store ??= UNLESS_GIVEN;
  for (const key of ['storeDirSize', 'storeTtl', 'storeWrite', 'storePrefetch'] as const) {
    const below = config.storeDir ?? (key === 'storeDirSize' ? null : config.storeUrl);
    if (given(key) && isUnusual(key, config) && below === null)
      throw new ConfigError(
        `${label(key)} needs a store folder${key === 'storeDirSize' ? '' : ' or server'}, and none is given: give ${label('storeDir')} DIR${key === 'storeDirSize' ? '' : `, or ${label('storeUrl')} URL`}`,
      );
  }
  if (config.fleet !== null) refuseCounts(config, given, label);
  checkStepSize(config, given('maxNumSeqs'), label);
  return Object.freeze(config);
}

function refuseGeneratedConversation(
  config: RunConfig,
  given: (key: RunKey) => boolean,
  label: (key: string) => string,
): void {
  const key = MADE_CONVERSATION_KEYS.find((key) => given(key) && isUnusual(key, config));
  if (key === undefined) return;
  throw new ConfigError(
    `${label('conversation')} and ${label(key)} are both given: the second is for generated conversations only; leave one of them out`,
  );
}

/** A fleet file already says how many engines there are. */
function refuseCounts(
  config: RunConfig,
  given: (key: RunKey) => boolean,
  label: (key: string) => string,
): void {
  const key = (['prefill', 'decode'] as const).find((role) => given(role) && config[role] !== 1);
  if (key === undefined) return;
  throw new ConfigError(
    `${label('fleet')} and ${label(key)} are both given: the rolesets say how many engines there are; leave one of them out`,
  );
}

/** vLLM's JSON sets the settings that it names. Throws ConfigError if the user gave one of them a different value. */
function mergeTransferConfig(
  config: { -readonly [K in RunKey]: RunConfig[K] },
  given: (key: RunKey) => boolean,
  label: (key: string) => string,
): void {
  const raw = config.kvTransferConfig!;
  const parsed = kvTransferConfigSchema.parse(raw);
  const { nixl, offloading } = namedConnectors(parsed);
  const merge = (key: RunKey, vllm: string, value: unknown): void => {
    if (value === undefined) return;
    if (given(key) && config[key] !== value) {
      throw new ConfigError(
        `${label(key)} is ${config[key]} and ${vllm} in ${label('kvTransferConfig')} is ${value}: give one of them`,
      );
    }
    Object.assign(config, { [key]: value });
  };
  for (const { key, vllm } of TWICE) {
    if (nixl && nixl.given[vllm] !== undefined) merge(key, vllm, nixl.extra[vllm]);
  }
  if (raw.kv_load_failure_policy !== undefined)
    merge('loadFailurePolicy', 'kv_load_failure_policy', parsed.kv_load_failure_policy);
  if (!offloading) return;
  merge('store', 'cpu_bytes_to_use', offloading.extra.cpu_bytes_to_use);
  if (offloading.given.eviction_policy !== undefined || !given('storeEviction'))
    merge('storeEviction', 'eviction_policy', offloading.extra.eviction_policy);
  if (offloading.given.offload_prompt_only !== undefined)
    merge('offloadPromptOnly', 'offload_prompt_only', offloading.extra.offload_prompt_only);
  merge('storeDir', 'root_dir', offloading.extra.secondary_tiers[0]?.root_dir);
  if (config.store === null && !keepsKv(config)) {
    throw new ConfigError(
      `${label('kvTransferConfig')} names ${parsed.kv_connector} without memory for its store: give cpu_bytes_to_use there, or ${label('store')} 64MiB`,
    );
  }
}

/** NIXL settings that the JSON of --kv-transfer-config sets; none if it is invalid. */
export function keysInTransferConfig(value: unknown): RunKey[] {
  const parsed = kvTransferConfigSchema.safeParse(parsedJson(value));
  const given = parsed.success ? namedConnectors(parsed.data).nixl?.given : undefined;
  return TWICE.filter(({ vllm }) => given?.[vllm] !== undefined).map(({ key }) => key);
}

/** A step needs at least one token per request. Lowers a defaulted maxNumSeqs; throws ConfigError if it was given. */
function checkStepSize(
  config: { -readonly [K in RunKey]: RunConfig[K] },
  seqsGiven: boolean,
  label: (key: string) => string,
): void {
  const tokens = config.maxNumBatchedTokens;
  if (tokens === null || tokens >= config.maxNumSeqs) return;
  if (seqsGiven) {
    throw new ConfigError(
      `${label('maxNumBatchedTokens')} is ${tokens} and ${label('maxNumSeqs')} is ${config.maxNumSeqs}: a step needs a token for each of its requests; raise the first or lower the second`,
    );
  }
  config.maxNumSeqs = tokens;
}

type Issue = z.core.$ZodIssue;

/** Descriptions of defaults, by setting. */
type Fallbacks = Readonly<Partial<Record<RunKey, string>>>;

function sentence(
  issue: Issue,
  input: unknown,
  label: (key: string) => string,
  fallbacks: Fallbacks,
): string {
  if (issue.path.length === 0 && issue.code !== 'unrecognized_keys') {
    return `the configuration is ${shown(input)}: wanted an object of settings, such as {"threshold": 64}`;
  }
  const key = issue.path[0] === undefined ? null : String(issue.path[0]);
  const inside = issue.path.slice(1).map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    const unknown = issue.keys[0]!;
    if (key === null) return unknownKey(unknown, label);
    const known = key === 'fleet' ? fleetFields(issue.path.slice(1)) : transferFields(issue.path, input);
    const wanted =
      known.length === 0
        ? 'this connector is configured with environment variables (docs/store.md) and takes no fields here'
        : `wanted one of ${known.join(', ')}${didYouMean(unknown, known)}${unknown.startsWith('lmcache.') ? "; LMCache's other settings are environment variables here (docs/store.md)" : ''}`;
    return `${label(key)} has an unknown field '${unknown}'${inside ? ` in ${inside}` : ''}: ${wanted}`;
  }
  const found = shown(issue.path.reduce<unknown>(child, input));
  const name = key === null ? 'the configuration' : label(key);
  if (SECRET_KEYS.has(key ?? '')) return `${name} is not usable: wanted ${issue.message}; or leave it out`;
  if (key === 'kvTransferConfig' && inside) {
    const known = issue.code === 'invalid_value' ? issue.values.map(String) : [];
    const value = issue.path.reduce<unknown>(child, input);
    return `${inside} in ${name} is ${found}: ${wantedBy(issue)}${didYouMean(value, known)}`;
  }
  if (key === 'fleet' && inside) return `${inside} in ${name} is ${found}: wanted ${issue.message}`;
  return `${name} is ${found}: wanted ${issue.message}${key === null ? '' : leaveOut(key, fallbacks)}`;
}

/** Known fields of the object at this path of --kv-transfer-config. */
function transferFields(path: readonly PropertyKey[], input: unknown): string[] {
  if (path.includes('secondary_tiers')) return Object.keys(folderTierSchema.shape);
  if (path.at(-1) !== 'kv_connector_extra_config') return Object.keys(kvTransferConfigSchema.shape);
  return extraKeysOf(child(path.slice(0, -1).reduce<unknown>(child, input), 'kv_connector'));
}

/** A field of an object; the object may be given as JSON text. */
const child = (value: unknown, key: PropertyKey): unknown => {
  const whole = parsedJson(value);
  return typeof whole === 'object' && whole !== null ? (whole as Record<PropertyKey, unknown>)[key] : value;
};

function unknownKey(unknown: string, label: (key: string) => string): string {
  const near = nearest(camel(unknown), runKeys);
  return `there is no setting ${label(unknown)}${near === null ? '; kvferry export config lists them' : `: did you mean ${label(near)}?`}`;
}

function leaveOut(key: string, fallbacks: Fallbacks): string {
  const own = fallbacks[key as RunKey];
  if (own !== undefined) return `; or leave it out for ${own}`;
  const fallback = runConfigSchema.shape[key as RunKey]?.parse(undefined);
  if (fallback === null || fallback === false) return '; or leave it out';
  if (Array.isArray(fallback) && fallback.length === 0) return '; or leave it out';
  return `; or leave it out for ${Array.isArray(fallback) ? fallback.join(', ') : String(fallback)}`;
}

const shown = (value: unknown): string =>
  typeof value === 'string' ? cutShort(`'${value}'`) : shownJson(value);
