/** What the program needs and is refused: threads, as in a container with a low pid limit, and the addon. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

/** Loaded before the program: makes every worker thread fail with `error`, as Node does. */
const refusing = (error: string): string[] => {
  const refuses = `import threads from 'node:worker_threads';
import { syncBuiltinESMExports } from 'node:module';
threads.Worker = class { constructor() { throw ${error}; } };
syncBuiltinESMExports();`;
  return ['--import', `data:text/javascript,${encodeURIComponent(refuses)}`];
};

it.each([
  [
    'without threads',
    refusing("new Error('EAGAIN')"),
    /^kvferry: the system starts no more threads for this program \(EAGAIN\): .*$/m,
  ],
  [
    "without threads by Node's permission model",
    refusing("Object.assign(new Error('restricted'), { code: 'ERR_ACCESS_DENIED' })"),
    /^kvferry: Node may start no threads here: give it --allow-worker, next to --permission$/m,
  ],
  [
    'without addons',
    ['--no-addons'],
    /^kvferry: .*Dawn \(npm's webgpu\) cannot be loaded: Cannot load native addon because loading addons is disabled(;.*)?$/m,
  ],
])('a run %s fails with one sentence and no stack trace', async (_, flags, expected) => {
  const args = ['run', '--model', 'nano', '--turns', '1', '--adapter', 'swiftshader'];
  const run = promisify(execFile)(process.execPath, [...flags, bundled('kvferry'), ...args]);
  const { code, stderr } = await run.then(
    () => ({ code: 0, stderr: '' }),
    (error: { code: number; stderr: string }) => error,
  );
  expect(stderr).toMatch(expected);
  expect({ code, stack: stderr.includes('    at ') }).toEqual({ code: 1, stack: false });
});
