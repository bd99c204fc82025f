/** Where the system starts no threads, as in a container with few pids. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

/** Loaded before the program: every thread is refused, in Node's words. */
const refuses = `import threads from 'node:worker_threads';
import { syncBuiltinESMExports } from 'node:module';
threads.Worker = class { constructor() { throw new Error('EAGAIN'); } };
syncBuiltinESMExports();`;

it('a run says so in a sentence', async () => {
  const args = ['--import', `data:text/javascript,${encodeURIComponent(refuses)}`, bundled('kvferry')];
  const run = promisify(execFile)(process.execPath, [
    ...args,
    'run',
    '--model',
    'nano',
    '--turns',
    '1',
    '--adapter',
    'swiftshader',
  ]);
  const { code, stderr } = await run.then(
    () => ({ code: 0, stderr: '' }),
    (error: { code: number; stderr: string }) => error,
  );
  expect(stderr).toMatch(/^kvferry: the system starts no more threads for this program \(EAGAIN\): .*$/m);
  expect({ code, stack: stderr.includes('    at ') }).toEqual({ code: 1, stack: false });
});
