/** What a command line will need, begun while the command's own modules load. A wrong guess costs what was begun. */
import { probeDriver } from './adapters.ts';
import { startThreadsAhead } from './threads.ts';

/** Commands that start P and D. */
const STARTING = ['run', 'serve', 'bench', 'sweep', 'calibrate', 'doctor'];
/** With these, such a command starts none. */
const NOT_WITH = ['help', 'version', 'endpoint', 'url'];

/** `args`: as typed. Begins to probe the adapter, and starts the engines' threads. */
export function beginAhead(args: readonly string[]): void {
  const adapter = adapterAhead(args);
  if (adapter === null) return;
  if (adapter === 'lavapipe' || adapter === 'swiftshader') probeDriver(adapter);
  else if (adapter === 'auto' || adapter === 'gpu') probeDriver('system');
  startThreadsAhead(2);
}

/** What --adapter says of a command line that starts engines; null: it starts none. */
export function adapterAhead(args: readonly string[]): string | null {
  const [command = '', ...rest] = args;
  if (!STARTING.includes(command)) return null;
  const options = optionsOf(rest);
  return NOT_WITH.some((name) => options.has(name)) ? null : (options.get('adapter') ?? 'auto');
}

/** By name, as the command line reads them (src/cli/arguments.ts), whose modules are not loaded yet: --name=VALUE, or --name VALUE. */
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
