/** The program without its process: arguments in, exit code out. */
import { KvferryError, messageOf } from '../errors.ts';
import { type CommandSpec, type Parsed, parseArguments } from './arguments.ts';
import { benchSpec } from './commands/bench.ts';
import { calibrateSpec } from './commands/calibrate.ts';
import { doctorSpec } from './commands/doctor.ts';
import { exportSpec } from './commands/export.ts';
import { planSpec } from './commands/plan.ts';
import { replaySpec } from './commands/replay.ts';
import { reportSpec } from './commands/report.ts';
import { runSpec } from './commands/run.ts';
import { serveSpec } from './commands/serve.ts';
import { simulateSpec } from './commands/simulate.ts';
import { storeSpec } from './commands/store.ts';
import { sweepSpec } from './commands/sweep.ts';
import { traceSpec } from './commands/trace.ts';
import { verifySpec } from './commands/verify.ts';
import { type CliDeps, type CommandContext, EXIT, type ExitCode } from './deps.ts';
import { readSettings } from './settings.ts';

const specs: readonly CommandSpec[] = [
  runSpec,
  serveSpec,
  benchSpec,
  replaySpec,
  sweepSpec,
  simulateSpec,
  planSpec,
  calibrateSpec,
  reportSpec,
  traceSpec,
  verifySpec,
  doctorSpec,
  exportSpec,
  storeSpec,
];

/** Never throws. `argv` is without the program's own name. */
export async function main(argv: readonly string[], deps: CliDeps): Promise<ExitCode> {
  const interrupt = new AbortController();
  const stopListening = deps.onInterrupt(() => {
    if (interrupt.signal.aborted) deps.exitNow(EXIT.interrupted);
    deps.stderr.write('\ninterrupted: ending the engines (Ctrl-C again ends at once)\n');
    interrupt.abort(new Error('interrupted'));
  });
  try {
    const parsed = parseArguments(argv, specs);
    const code = await dispatch(parsed, { deps, signal: interrupt.signal });
    // A server's end by a signal is its good end.
    const cutShort = interrupt.signal.aborted && !(parsed.kind === 'command' && parsed.spec === serveSpec);
    return cutShort ? EXIT.interrupted : code;
  } catch (error) {
    if (interrupt.signal.aborted) return EXIT.interrupted;
    explain(error, argv.includes('--debug'), deps);
    return isUsage(error) ? EXIT.usage : EXIT.failed;
  } finally {
    stopListening();
  }
}

async function dispatch(parsed: Parsed, context: CommandContext): Promise<ExitCode> {
  const { deps } = context;
  if (parsed.kind === 'version') {
    deps.stdout.write(`kvferry ${deps.version}\n`);
    return EXIT.good;
  }
  if (parsed.kind === 'help') {
    (parsed.asked ? deps.stdout : deps.stderr).write(`${parsed.text}\n`);
    return parsed.asked ? EXIT.good : EXIT.usage;
  }
  const { spec, args, settings, configFile } = parsed;
  const { config, lists } = await readSettings(settings, configFile, deps, spec);
  // Found out before the work, not after it.
  if (typeof config.json === 'string') await deps.checkWritable(config.json);
  return spec.run(config, context, { args, lists });
}

const isUsage = (error: unknown): boolean =>
  error instanceof KvferryError && (error.code === 'config' || error.code === 'model');

/** One sentence; with --debug the stack, and those of its causes. */
function explain(error: unknown, debug: boolean, deps: CliDeps): void {
  const known = error instanceof KvferryError && error.code !== 'internal';
  const message = messageOf(error);
  deps.stderr.write(`kvferry: ${message}${known || debug ? '' : ' (this is a bug; --debug shows where)'}\n`);
  for (let cause: unknown = error; debug && cause instanceof Error; cause = cause.cause) {
    deps.stderr.write(`${cause.stack ?? cause.message}\n`);
  }
}
