/** A system that starts no more threads, as in a container with a low pid limit. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

/** Loaded before the program: makes every worker thread fail with EAGAIN, as Node does. */
const refuses = `import threads from 'node:worker_threads';
import { syncBuiltinESMExports } from 'node:module';
threads.Worker = class { constructor() { throw new Error('EAGAIN'); } };
syncBuiltinESMExports();`;

it('a run without threads fails with one sentence and no stack trace', async () => {
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
