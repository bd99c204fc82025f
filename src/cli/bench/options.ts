/** What the benchmarks' command lines have in common. They are for developers: `npm run bench:*`. */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ConfigError, KvferryError } from '../../errors.ts';
import { median } from '../../measure/statistics.ts';
import { formatInterval, formatMs } from '../format.ts';

export interface BenchOptions {
  adapter: string;
  model: string;
  rounds: number;
  /** true: to stdout. A string: to that file. */
  json: boolean | string;
  /** Of the benchmark's own options, those that were given. */
  own: Readonly<Record<string, string | undefined>>;
}

/** `own`: further options with what their value is called (`trace FILE`), and what help says of each. Prints help and ends when asked to. Throws ConfigError. */
export function benchOptions(
  name: string,
  what: string,
  defaults: { model: string; rounds: number },
  own: Readonly<Record<string, string>> = {},
): BenchOptions {
  const args = process.argv.slice(2);
  const names = Object.keys(own).map((option) => option.split(' ')[0]!);
  // --json may stand without a file: parseArgs wants a value.
  const bare = args.flatMap((arg, i) =>
    arg === '--json' && (args[i + 1] ?? '--').startsWith('--') ? ['--json='] : [arg],
  );
  let values: Record<string, string | boolean | undefined>;
  try {
    ({ values } = parseArgs({
      args: bare,
      options: {
        adapter: { type: 'string', default: 'auto' },
        model: { type: 'string', default: defaults.model },
        rounds: { type: 'string', default: String(defaults.rounds) },
        json: { type: 'string' },
        ...Object.fromEntries(names.map((option) => [option, { type: 'string' as const }])),
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (error) {
    throw new ConfigError(`${(error as Error).message.split('. ')[0]}; --help lists the options`);
  }
  if (values.help) {
    process.stdout.write(
      `${name}: ${what}\n\n  --adapter NAME   auto, gpu, lavapipe, swiftshader or part of a name (auto)\n` +
        `  --model NAME     a preset or a directory (${defaults.model})\n` +
        `  --rounds N       rounds to measure (${defaults.rounds})\n` +
        '  --json [FILE]    the figures as JSON, to FILE or stdout\n' +
        Object.entries(own)
          .map(([option, says]) => `  --${option.padEnd(13)}  ${says}\n`)
          .join('') +
        '\n' +
        `example: npm run ${name} -- --adapter lavapipe --json figures.json\n`,
    );
    process.exit(0);
  }
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) {
    throw new ConfigError(`--rounds is ${values.rounds}: wanted a whole number, 1 or more`);
  }
  return {
    adapter: String(values.adapter),
    model: String(values.model),
    rounds,
    json: values.json === undefined ? false : values.json === '' ? true : String(values.json),
    own: Object.fromEntries(names.map((option) => [option, values[option] as string | undefined])),
  };
}

/** The median of some times with the least and the most of them. */
export const spread = (ms: readonly number[]): string =>
  formatInterval({ value: median(ms), low: Math.min(...ms), high: Math.max(...ms) }, formatMs);

/** Runs the benchmark; an error is one sentence on stderr. */
export async function runBench(run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    process.stderr.write(
      `${error instanceof KvferryError ? error.message : String((error as Error).stack)}\n`,
    );
    process.exitCode = error instanceof ConfigError ? 2 : 1;
  }
}

/** Lines for people on stdout (stderr when the JSON goes there), the figures where --json says. */
export function report(options: BenchOptions, lines: readonly string[], figures: object): void {
  const out = options.json === true ? process.stderr : process.stdout;
  out.write(`${lines.join('\n')}\n`);
  const text = `${JSON.stringify(figures, null, 2)}\n`;
  if (options.json === true) process.stdout.write(text);
  else if (options.json) writeFileSync(options.json, text);
}
