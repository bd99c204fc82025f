/**
 * Parses the command line: the command, its settings as text, and help. cac handles commands and options. Values bypass
 * it, because it would convert text such as 10e6 or 007 to numbers and take -5 for an option.
 */
import { type CAC, type Command, cac } from 'cac';
import { didYouMean } from '../../config/fields.ts';
import {
  camel,
  type FieldGroup,
  fieldMeta,
  keysOf,
  optionName,
  type RunConfig,
  type RunKey,
  runConfigSchema,
  switchName,
} from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { formatBytes, listed } from '../../measure/format.ts';
import type { CommandContext, ExitCode } from '../deps.ts';
import { commandLines, fill, WIDTH, wrap } from '../output/format.ts';

/** Settings that were given several values: all of them, each checked. */
export type Lists = { readonly [K in RunKey]?: readonly unknown[] };

/** What the user gave besides the configuration. */
export interface CommandInput {
  /** Positional arguments. */
  args: readonly string[];
  lists: Lists;
  /** Options on the command line that differ from their defaults. */
  given: ReadonlySet<RunKey>;
  /** Settings that the user gave in any way, also with their default values: options, a config file, vLLM's JSON. */
  explicit: ReadonlySet<string>;
  /** Files from which settings were read: --config, --fleet and the like. */
  files: readonly string[];
}

export interface CommandSpec {
  run(config: RunConfig, context: CommandContext, input: CommandInput): Promise<ExitCode>;
  /** Name and arguments in cac's notation: 'export <what> [dir]'. */
  usage: string;
  description: string;
  groups: readonly FieldGroup[];
  /** Settings of these groups that the command always refuses, with a reason. Help omits them. */
  refuses?: readonly RunKey[];
  /** The setting that the first positional argument sets. */
  argument?: RunKey;
  /**
   * The command's own defaults, which may depend on what the user set and on the positional arguments; others are the
   * schema's. Throws ConfigError.
   */
  defaults?:
    | ((given: Readonly<Record<string, unknown>>, args: readonly string[]) => Record<string, unknown>)
    | undefined;
  /** Descriptions of this command's defaults, for help; they replace the usual ones. */
  defaultNotes?: Partial<Readonly<Record<RunKey, string>>>;
  examples: readonly string[];
  /** Settings that accept several values, separated by commas. */
  lists?: readonly RunKey[];
  /** Ending by a signal is success, as for a server. */
  endsBySignal?: true;
}

export type Parsed =
  | { kind: 'help'; text: string; requested: boolean }
  | { kind: 'version' }
  | {
      kind: 'command';
      args: readonly string[];
      settings: Record<string, unknown>;
      configFile: string | null;
      spec: CommandSpec;
    };

const ABOUT =
  'kvferry runs prefill and decode engines on one machine, copies KV blocks between them in both directions, and measures what that saves and costs.';

/** Throws ConfigError for an unknown command or option. */
export function parseArguments(argv: readonly string[], specs: readonly CommandSpec[]): Parsed {
  const shielded = shieldValues(argv);
  const cli = describe(specs);
  const { args, options } = cli.parse(['node', 'kvferry', ...shielded.argv], { run: false });
  const command = cli.matchedCommand;
  if (options.help && !command && args[0] !== undefined) throw unknownCommand(args[0], specs);
  if (options.help) return { kind: 'help', text: helpText(command ?? null, specs), requested: true };
  if (options.version) return { kind: 'version' };
  if (!command) {
    if (args[0] === undefined && Object.keys(options).length <= 1)
      return { kind: 'help', text: helpText(null, specs), requested: false };
    throw unknownCommand(args[0], specs);
  }
  const spec = specs.find(({ usage }) => nameOf(usage) === command.name)!;
  const settings: Record<string, unknown> = {};
  let configFile: string | null = null;
  for (const [key, value] of Object.entries(options)) {
    if (key === '--' || value === undefined) continue;
    if (Array.isArray(value) && isRepeatable(key)) {
      settings[checkKey(key, spec, specs)] = value.map((each) =>
        wantText(key, shielded.values.get(each) ?? each),
      );
      continue;
    }
    if (Array.isArray(value))
      throw new ConfigError(`${optionName(key)} is given more than once: give it once`);
    const text = shielded.values.get(value) ?? value;
    if (key === 'config') configFile = wantText(key, text);
    else settings[checkKey(key, spec, specs)] = checkValue(key as RunKey, text);
  }
  if (spec.argument && args[0] !== undefined) {
    if (spec.argument in settings)
      throw new ConfigError(`${optionName(spec.argument)} and '${args[0]}' are both given: give one of them`);
    settings[spec.argument] = args[0];
  }
  const surplus = args[command.args.length];
  if (surplus !== undefined) {
    throw new ConfigError(
      `'${surplus}' is one argument too many for kvferry ${command.name}: see kvferry ${command.name} --help`,
    );
  }
  return { kind: 'command', args, settings, configFile, spec };
}

const nameOf = (usage: string): string => usage.split(' ')[0]!;

function describe(specs: readonly CommandSpec[]): CAC {
  const cli = cac('kvferry');
  for (const spec of specs) {
    const command = cli.command(spec.usage, spec.description, { ignoreOptionDefaultValue: true });
    for (const key of keysOf(spec.groups)) {
      command.option(optionSyntax(key), fieldMeta(key).description);
    }
    command.option('--config <FILE>', 'Read settings from a JSON file; options override it.');
    for (const example of spec.examples) command.example(example);
  }
  // Not cac's own help(), which prints to the console.
  cli.option('-h, --help', 'Show this help.');
  cli.option('-v, --version', 'Show the version.');
  return cli;
}

function optionSyntax(key: RunKey): string {
  const { value, negated, valueOptional } = fieldMeta(key);
  if (negated || value === null) return switchName(key);
  return valueOptional ? `${optionName(key)} [${value}]` : `${optionName(key)} <${value}>`;
}

/** Replaces each option's value with a placeholder that cac does not interpret, and joins it to its option. */
function shieldValues(argv: readonly string[]): { argv: string[]; values: Map<unknown, string> } {
  const values = new Map<unknown, string>();
  const out: string[] = [];
  const shield = (value: string): string => {
    const mark = `\u0000${values.size}`;
    values.set(mark, value);
    return mark;
  };
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!;
    if (word === '--' || !word.startsWith('--')) {
      out.push(word);
      continue;
    }
    const equals = word.indexOf('=');
    const name = equals < 0 ? word : word.slice(0, equals);
    const meta = metaOf(camel(name.slice(2)));
    const next = argv[i + 1];
    if (equals >= 0) out.push(`${name}=${shield(word.slice(equals + 1))}`);
    else if (meta.takesValue && next !== undefined && (/^-\d/.test(next) || !next.startsWith('-'))) {
      out.push(`${name}=${shield(next)}`);
      i++;
    } else out.push(word);
  }
  return { argv: out, values };
}

function metaOf(key: string): { takesValue: boolean } {
  if (key === 'config') return { takesValue: true };
  if (!(key in runConfigSchema.shape)) return { takesValue: false };
  const { value, negated } = fieldMeta(key as RunKey);
  return { takesValue: value !== null && !negated };
}

const isRepeatable = (key: string): boolean =>
  key in runConfigSchema.shape && fieldMeta(key as RunKey).repeatable === true;

function checkKey(key: string, spec: CommandSpec, specs: readonly CommandSpec[]): string {
  if (!(key in runConfigSchema.shape)) {
    const known = ['config', ...keysOf(spec.groups)].map(optionName);
    const name = key.length === 1 ? `-${key}` : optionName(key);
    throw new ConfigError(`there is no option ${name}${didYouMean(name, known) || '; --help lists them'}`);
  }
  const { group } = fieldMeta(key as RunKey);
  if (spec.groups.includes(group)) return key;
  const takers = specs.filter(({ groups }) => groups.includes(group)).map(({ usage }) => nameOf(usage));
  throw new ConfigError(
    `${optionName(key)} is an option of kvferry ${listed(takers)}, not of ${nameOf(spec.usage)}: leave it out`,
  );
}

function checkValue(key: RunKey, value: unknown): unknown {
  const { value: placeholder, valueOptional } = fieldMeta(key);
  if (placeholder === null || valueOptional) return value;
  return wantText(key, value);
}

function wantText(key: string, value: unknown): string {
  if (typeof value === 'string') return value;
  const placeholder = key === 'config' ? 'FILE' : (fieldMeta(key as RunKey).value ?? 'VALUE');
  throw new ConfigError(`${optionName(key)} has no value: wanted ${optionName(key)} ${placeholder}`);
}

function unknownCommand(found: string | undefined, specs: readonly CommandSpec[]): ConfigError {
  const names = specs.map(({ usage }) => nameOf(usage));
  if (found === undefined)
    return new ConfigError(`no command is given: wanted one of ${names.join(', ')}; see kvferry --help`);
  return new ConfigError(
    `there is no command '${found}': wanted one of ${names.join(', ')}${didYouMean(found, names)}`,
  );
}

function helpText(command: Command | null, specs: readonly CommandSpec[]): string {
  const spec = command && specs.find(({ usage }) => nameOf(usage) === command.name);
  if (!command || !spec) {
    const rows = specs.map(({ usage, description }) => [usage, description] as const);
    return [
      ...wrap(ABOUT, WIDTH),
      '',
      'Usage: kvferry <command> [options]',
      '',
      ...definitions(rows),
      '',
      'kvferry <command> --help, or kvferry help <command>, shows its options.',
      'kvferry --version (-v) shows the version. Start with: kvferry run',
    ].join('\n');
  }
  const lines = [...wrap(spec.description, WIDTH), '', `Usage: kvferry ${spec.usage} [options]`];
  const titles: Record<FieldGroup, string> = {
    machine: 'Model and adapter',
    fleet: 'Fleet',
    cluster: 'Engines and transfers',
    store: 'KV store',
    routing: 'Routing',
    explaining: 'Routing',
    sampling: 'Sampling',
    modes: 'Modes',
    measuring: 'Rounds',
    bench: 'Benchmark',
    ways: 'Benchmark',
    slo: 'Benchmark',
    planning: 'Planning',
    modelling: 'Simulation',
    simulation: 'Simulation',
    endpoint: 'External server',
    serving: 'Server',
    scaling: 'Scaling',
    workload: 'Conversation',
    trace: 'Trace',
    pacing: 'Pacing',
    verify: 'Checks',
    faults: 'Checks',
    checking: 'Checks',
    pages: 'Report',
    junit: 'Report',
    asserting: 'Report',
    comparing: 'Report',
    recording: 'Recording',
    sweep: 'Sweep',
    traceFile: 'Timelines and profiles',
    tracing: 'Timelines and profiles',
    calibration: 'Calibration',
    costs: 'Pull or recompute',
    audit: 'Audit',
    general: 'General',
  };
  const sections = new Map<string, (readonly [string, string])[]>();
  for (const group of spec.groups) {
    const keys = keysOf([group], ...(spec.refuses ?? []));
    const rows = keys.map((key) => [optionSyntax(key), describeKey(key, spec)] as const);
    if (group === 'general')
      rows.push(
        ['--config <FILE>', 'Read settings from a JSON file; options override it.'],
        ['-h, --help', 'Show this help.'],
      );
    sections.set(titles[group], [...(sections.get(titles[group]) ?? []), ...rows]);
  }
  for (const [title, rows] of sections)
    if (rows.length > 0) lines.push('', `${title}:`, ...definitions(rows));
  lines.push('', 'Examples:', ...spec.examples.flatMap(commandLines));
  return lines.join('\n');
}

function describeKey(key: RunKey, { lists, defaultNotes }: CommandSpec): string {
  const note = defaultNotes?.[key];
  const { description } = fieldMeta(key);
  // A command's own default replaces the one that the description ends with.
  const text =
    note === undefined
      ? `${description}${defaultOf(key)}`
      : `${description.replace(/ Default: .*$/, '')} Default for this command: ${note}.`;
  return `${lists?.includes(key) ? 'Comma-separated list. ' : ''}${text}`;
}

function defaultOf(key: RunKey): string {
  const value = runConfigSchema.shape[key].parse(undefined);
  if (value === null || typeof value === 'boolean') return '';
  if (Array.isArray(value)) return value.length === 0 ? '' : ` (${value.join(', ')})`;
  const bytes = fieldMeta(key).value === 'BYTES' && typeof value === 'number';
  return ` (${bytes ? formatBytes(value).replace(' ', '') : String(value)})`;
}

function definitions(rows: readonly (readonly [string, string])[]): string[] {
  const indent = 30;
  return rows.flatMap(([term, text]) => {
    const [first, ...rest] = wrap(text, WIDTH - indent);
    const head = `  ${term}`;
    const body = rest.map((line) => ' '.repeat(indent) + line);
    return head.length < indent - 1
      ? [fill(head, indent) + first, ...body]
      : [head, ' '.repeat(indent) + first, ...body];
  });
}
