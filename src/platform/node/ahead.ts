/** What a command line will need, begun while the command's own modules load. A wrong guess costs what was begun. */
import { probeDriver } from './adapters.ts';
import { startThreadsAhead } from './threads.ts';

/** Commands that start P and D. */
const STARTING = ['run', 'serve', 'bench', 'sweep', 'calibrate', 'doctor'];
/** With these, such a command starts none. */
const NOT_WITH = ['--help', '-h', '--endpoint'];

/** `args`: as typed. Begins to probe the adapter, and starts the engines' threads. */
export function beginAhead(args: readonly string[]): void {
  const [command = ''] = args;
  if (!STARTING.includes(command) || NOT_WITH.some((option) => args.includes(option))) return;
  const option = args.indexOf('--adapter');
  const choice = option < 0 ? 'auto' : args[option + 1];
  if (choice === 'lavapipe' || choice === 'swiftshader') probeDriver(choice);
  else if (choice === 'auto' || choice === 'gpu') probeDriver('system');
  startThreadsAhead(2);
}
