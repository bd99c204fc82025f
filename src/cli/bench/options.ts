/** Common command line of the developers' benchmarks, `npm run bench:*`. */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ConfigError, KvferryError } from '../../errors.ts';
import { formatInterval, formatMs } from '../../measure/format.ts';
import { median } from '../../measure/statistics.ts';
import { keepFreedMemory } from '../../platform/node/malloc.ts';
import { checkWritable } from '../node/user-files.ts';
import { WIDTH, widthOf, wrap } from '../output/format.ts';

export interface BenchOptions {
  /** The model; '' if the benchmark runs no engine. */
  adapter: string;
  model: string;
  /** 0 if the benchmark has no rounds. */
  rounds: number;
  /** true: stdout. A string: that file. */
  json: boolean | string;
  /** The benchmark's own options that were given. */
  own: Readonly<Record<string, string | undefined>>;
  /** Names of all options that were given. */
  given: readonly string[];
}

/** Column at which the help describes an option. */
const INDENT = 19;

/** The common options that a benchmark takes, with their defaults, and its example. */
interface Offered {
  /** With a model, the benchmark also takes an adapter. */
  model?: string;
  rounds?: number;
  example?: string;
}

/**
 * `own`: further options with the name of their value (`trace FILE`) and their help. Prints help and exits on --help. Throws
 * ConfigError, also if the --json file is not writable.
 */
export async function benchOptions(
  name: string,
  what: string,
  { model, rounds, example }: Offered,
  own: Readonly<Record<string, string>> = {},
  args: readonly string[] = process.argv.slice(2),
): Promise<BenchOptions> {
  const all: Readonly<Record<string, string>> = {
    ...(model === undefined
      ? {}
      : {
          'adapter NAME': 'auto, gpu, lavapipe, swiftshader or part of a name (auto)',
          'model NAME': `a preset or a directory (${model})`,
        }),
    ...(rounds === undefined ? {} : { 'rounds N': `rounds to measure (${rounds})` }),
    ...own,
    'json [FILE]': 'the figures as JSON, to FILE or stdout',
  };
  const nameOf = (option: string): string => option.split(' ')[0]!;
  // --json may be given without a file, but parseArgs requires a value.
  const bare = args.flatMap((arg, i) =>
    arg === '--json' && (args[i + 1] ?? '--').startsWith('--') ? ['--json='] : [arg],
  );
  let values: Record<string, string | boolean | undefined>;
  try {
    ({ values } = parseArgs({
      args: bare,
      options: {
        ...Object.fromEntries(
          Object.keys(all).map((option) => [nameOf(option), { type: 'string' as const }]),
        ),
        help: { type: 'boolean' },
      },
    }));
  } catch (error) {
    throw new ConfigError(`${(error as Error).message.split('. ')[0]}; --help lists the options`);
  }
  if (values.help) {
    const lines = Object.entries(all).flatMap(([option, says]) => {
      const [first, ...rest] = wrap(says, WIDTH - INDENT);
      return [
        `${`  --${option}`.padEnd(INDENT - 1)} ${first}`,
        ...rest.map((line) => ' '.repeat(INDENT) + line),
      ];
    });
    const usual = example ?? (model === undefined ? '' : '--adapter lavapipe');
    const command = ['npm', 'run', name, '--', ...(usual ? [usual] : []), '--json figures.json'].join(' ');
    process.stdout.write(
      `${wrap(`${name}: ${what}`, WIDTH).join('\n')}\n\n${lines.join('\n')}\n\nexample: ${command}\n`,
    );
    process.exit(0);
  }
  const wanted = values.rounds === undefined ? rounds : Number(values.rounds);
  if (wanted !== undefined && (!Number.isInteger(wanted) || wanted < 1))
    throw new ConfigError(`--rounds is ${values.rounds}: wanted a whole number, 1 or more`);
  const { json } = values;
  if (typeof json === 'string' && json !== '') await checkWritable(json);
  return {
    adapter: model === undefined ? '' : String(values.adapter ?? 'auto'),
    model: String(values.model ?? model ?? ''),
    rounds: wanted ?? 0,
    json: json === undefined ? false : json === '' ? true : String(json),
    own: Object.fromEntries(
      Object.keys(own).map((option) => [nameOf(option), values[nameOf(option)] as string | undefined]),
    ),
    given: Object.keys(values),
  };
}

/** Throws ConfigError if one of these was given. `why`: such as 'has no effect with --duration'. */
export function refuseGiven({ given }: BenchOptions, names: readonly string[], why: string): void {
  const found = names.find((name) => given.includes(name));
  if (found) throw new ConfigError(`--${found} ${why}: leave it out`);
}

/** The median of some times with their minimum and maximum. */
export const spread = (ms: readonly number[]): string =>
  formatInterval({ value: median(ms), low: Math.min(...ms), high: Math.max(...ms) }, formatMs);

/** Runs the benchmark; prints an error as one sentence on stderr. */
export async function runBench(run: () => Promise<void>): Promise<void> {
  // As the program does.
  keepFreedMemory();
  try {
    await run();
  } catch (error) {
    process.stderr.write(
      `${error instanceof KvferryError ? error.message : String((error as Error).stack)}\n`,
    );
    process.exitCode = error instanceof ConfigError ? 2 : 1;
  }
}

/** A sentence that is wider than the terminal is wrapped, and keeps its indentation. */
function fitted(line: string): string[] {
  const text = line.trimStart();
  const indent = line.slice(0, line.length - text.length);
  const [first, ...rest] = wrap(text, WIDTH - indent.length, '  ');
  return widthOf(line) <= WIDTH ? [line] : [indent + first, ...rest.map((each) => indent + each)];
}

/** Prints lines to stdout (to stderr if JSON goes to stdout), and figures as --json says. */
export function report(options: BenchOptions, lines: readonly string[], figures: object): void {
  const out = options.json === true ? process.stderr : process.stdout;
  out.write(`${lines.flatMap(fitted).join('\n')}\n`);
  const text = `${JSON.stringify(figures, null, 2)}\n`;
  if (options.json === true) process.stdout.write(text);
  else if (options.json) writeFileSync(options.json, text);
}
