/** Ctrl-C twice, as a user of the program presses it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

it('a second Ctrl-C while engines start ends the program at once, without a crash', async () => {
  const argv = ['run', '--model', 'nano', '--prefill', '3', '--decode', '3'];
  const child = spawn(process.execPath, [bundled('kvferry'), ...argv], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  let pressed = 0;
  child.stderr.on('data', (text) => {
    said += text;
    for (const [times, told] of ['starting', 'interrupted'].entries())
      if (pressed === times && said.includes(told)) {
        pressed++;
        child.kill('SIGINT');
      }
  });
  const [code, signal] = await once(child, 'close');
  expect(said).not.toContain('FATAL');
  // 130 if the engines had ended before.
  expect(['SIGINT', 130]).toContain(signal ?? code);
});
