/** The program, independent of its process: takes arguments, returns an exit code. */
import { ConfigError, KvferryError, messageOf } from '../errors.ts';
import { orAborted } from '../router/or-aborted.ts';
import { type CliDeps, type CommandContext, EXIT, type ExitCode } from './deps.ts';
import { Interrupted, unlessAborted } from './interrupted.ts';
import { type CommandSpec, type Parsed, parseArguments } from './options/arguments.ts';
import { readSettings } from './options/settings.ts';
import { unusualOptions } from './options/unused-options.ts';
import { keepInputs } from './output/outputs.ts';
import { printable, printableOutput } from './output/printable.ts';

/** Commands by name, in help's order. Each is loaded on demand, with its dependencies. */
const commands: Readonly<Record<string, () => Promise<CommandSpec>>> = {
  run: async () => (await import('./commands/run.ts')).runSpec,
  serve: async () => (await import('./commands/serve.ts')).serveSpec,
  bench: async () => (await import('./commands/bench.ts')).benchSpec,
  replay: async () => (await import('./commands/replay.ts')).replaySpec,
  sweep: async () => (await import('./commands/sweep.ts')).sweepSpec,
  simulate: async () => (await import('./commands/simulate.ts')).simulateSpec,
  plan: async () => (await import('./commands/plan.ts')).planSpec,
  calibrate: async () => (await import('./commands/calibrate.ts')).calibrateSpec,
  report: async () => (await import('./commands/report.ts')).reportSpec,
  trace: async () => (await import('./commands/trace.ts')).traceSpec,
  verify: async () => (await import('./commands/verify.ts')).verifySpec,
  doctor: async () => (await import('./commands/doctor.ts')).doctorSpec,
  export: async () => (await import('./commands/export.ts')).exportSpec,
  store: async () => (await import('./commands/store.ts')).storeSpec,
};

/** Never throws. `argv` excludes the program's name. */
export async function main(argv: readonly string[], world: CliDeps): Promise<ExitCode> {
  const { stdout, stderr, color } = world;
  const outputs = { stdout: printableOutput(stdout, color), stderr: printableOutput(stderr, color) };
  const interrupt = new AbortController();
  const deps: CliDeps = {
    ...world,
    ...outputs,
    // Reading must stop at the signal, because nothing else may check it for a long time: a file may be long, or a pipe to
    // which nobody writes.
    async nextTask() {
      await world.nextTask();
      interrupt.signal.throwIfAborted();
    },
    readTextFile: (path) => orAborted(interrupt.signal, world.readTextFile(path)),
    importModule: (path) => orAborted(interrupt.signal, world.importModule(path)),
    readTextPieces: (path) => unlessAborted(world.readTextPieces(path), interrupt.signal),
  };
  const stopListening = deps.onInterrupt(() => {
    if (interrupt.signal.aborted) deps.exitNow();
    deps.stderr.write('\ninterrupted: shutting down (press Ctrl-C again to exit at once)\n');
    interrupt.abort(new Interrupted('interrupted'));
  });
  let cutShort: ExitCode = EXIT.interrupted;
  const stopWatching = deps.onOutputLost(() => {
    if (interrupt.signal.aborted) return;
    cutShort = EXIT.unread;
    interrupt.abort(new Error('the reader of the output has gone'));
  });
  try {
    const parsed = await parse(argv);
    const code = await dispatch(parsed, { deps, signal: interrupt.signal });
    const endsBySignal = parsed.kind === 'command' && parsed.spec.endsBySignal;
    return interrupt.signal.aborted && !endsBySignal ? cutShort : code;
  } catch (error) {
    if (interrupt.signal.aborted) return cutShort;
    explain(error, argv.includes('--debug'), deps);
    return isUsage(error) ? EXIT.usage : EXIT.failed;
  } finally {
    stopListening();
    stopWatching();
  }
}

async function parse(given: readonly string[]): Promise<Parsed> {
  // As in other programs; kvferry has no command named help.
  const argv = given[0] === 'help' ? [...given.slice(1), '--help'] : given;
  const [word = ''] = argv;
  if (Object.hasOwn(commands, word)) {
    const spec = await commands[word]!();
    try {
      return parseArguments(argv, [spec]);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      // The message about a wrong option names the commands that have it, so all must be loaded.
    }
  }
  return parseArguments(argv, await Promise.all(Object.values(commands).map((load) => load())));
}

async function dispatch(parsed: Parsed, context: CommandContext): Promise<ExitCode> {
  const { deps } = context;
  if (parsed.kind === 'version') {
    deps.stdout.write(`kvferry ${deps.version}\n`);
    return EXIT.good;
  }
  if (parsed.kind === 'help') {
    (parsed.requested ? deps.stdout : deps.stderr).write(`${parsed.text}\n`);
    return parsed.requested ? EXIT.good : EXIT.usage;
  }
  const { spec, args, settings, configFile } = parsed;
  const { config, lists, explicit, files } = await readSettings(settings, configFile, deps, spec, args);
  // Checked before the work starts.
  await keepInputs(config, deps, files);
  if (typeof config.json === 'string') await deps.checkWritable(config.json);
  const given = unusualOptions(Object.keys(settings), config);
  return spec.run(config, context, { args, lists, given, explicit, files });
}

const isUsage = (error: unknown): boolean =>
  error instanceof KvferryError && (error.code === 'config' || error.code === 'model');

/** Prints one sentence; with --debug also the stacks of the error and its causes. */
function explain(error: unknown, debug: boolean, deps: CliDeps): void {
  const known = error instanceof KvferryError && error.code !== 'internal';
  const message = printable(messageOf(error));
  const why = known ? '' : (systemLimit(message) ?? (debug ? '' : ' (this is a bug; --debug shows where)'));
  deps.stderr.write(`kvferry: ${message}${why}\n`);
  for (let cause: unknown = error; debug && cause instanceof Error; cause = cause.cause) {
    deps.stderr.write(`${printable(cause.stack ?? cause.message)}\n`);
  }
}

/** Explains Node's error codes for open-file limits. Matches the message, because only that comes from a thread. */
const systemLimit = (message: string): string | null =>
  /\b(EMFILE|ENFILE)\b/.test(message)
    ? ': this process has reached its limit of open files; raise it (ulimit -n)'
    : null;
