/**
 * Starts the adapter's probe and the engine threads while the command's own modules load. A wrong guess wastes only
 * that work.
 */
import { probeDriver } from './adapters.ts';
import { startThreadsAhead } from './threads.ts';

/** Commands that start P and D. */
const STARTING = ['run', 'serve', 'bench', 'sweep', 'calibrate', 'doctor'];
/** Options with which those commands start no engines. */
const NOT_WITH = ['help', 'version', 'endpoint', 'url'];

/**
 * `args`: the command line as typed. Starts probing the adapter and starts two engine threads, if the command needs
 * them.
 */
export function beginPreload(args: readonly string[]): void {
  const adapter = preloadedAdapter(args);
  if (adapter === null) return;
  if (adapter === 'lavapipe' || adapter === 'swiftshader') probeDriver(adapter);
  else if (adapter === 'auto' || adapter === 'gpu') probeDriver('system');
  startThreadsAhead(2);
}

/** The value of --adapter, default 'auto'; null if the command line starts no engines. */
export function preloadedAdapter(args: readonly string[]): string | null {
  const [command = '', ...rest] = args;
  if (!STARTING.includes(command)) return null;
  const options = optionsOf(rest);
  return NOT_WITH.some((name) => options.has(name)) ? null : (options.get('adapter') ?? 'auto');
}

/**
 * Options by name, parsed as src/cli/options/arguments.ts does, whose modules are not loaded yet: --name=VALUE or --name VALUE.
 */
function optionsOf(words: readonly string[]): Map<string, string | null> {
  const options = new Map<string, string | null>();
  for (const [i, word] of words.entries()) {
    if (word === '--') break;
    if (word === '-h') options.set('help', null);
    if (word === '-v') options.set('version', null);
    if (!word.startsWith('--')) continue;
    const equals = word.indexOf('=');
    const next = words[i + 1];
    if (equals > 0) options.set(word.slice(2, equals), word.slice(equals + 1));
    else options.set(word.slice(2), next === undefined || next.startsWith('-') ? null : next);
  }
  return options;
}
