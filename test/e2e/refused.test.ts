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

/** Loaded before the program. */
const CHANGES_INTO_DELETED = `import fs from 'node:fs';
import os from 'node:os';
process.chdir(fs.mkdtempSync(os.tmpdir() + '/kvferry-'));
fs.rmdirSync(process.cwd());`;

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
    'in a folder that is gone',
    ['--import', `data:text/javascript,${encodeURIComponent(CHANGES_INTO_DELETED)}`],
    /^kvferry: engine prefill-0 ended: the folder in which this program was started is gone, and .*: start it in another$/m,
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
