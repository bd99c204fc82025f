import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { ask } from '../../src/cli/bench/peers/turns.ts';

it('asking a contender whose process has ended gives a failure', async () => {
  const child = spawn(process.execPath, ['-e', ''], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  await once(child, 'exit');
  expect(await ask(child, { kind: 'round' })).toEqual({ kind: 'failed', why: 'its process ended' });
});
