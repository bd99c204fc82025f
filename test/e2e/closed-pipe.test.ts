/** Output whose reader leaves before the end, as `head` does: the program stops without a word, and leaves nothing running. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

type Stream = 'stdout' | 'stderr';

/**
 * Runs kvferry, closes `stream`, at once or when it has said something, and tells what came of it. All that a run says on stdout
 * comes within a moment at its end: a busy reader would close it after the last of it.
 */
async function closed(stream: Stream, argv: string, when: 'at once' | 'told something' = 'told something') {
  const child = spawn(process.execPath, [bundled('kvferry'), ...argv.split(' ')], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let other = '';
  child[stream === 'stdout' ? 'stderr' : 'stdout'].on('data', (text) => {
    other += text;
  });
  if (when === 'at once') child[stream].destroy();
  else child[stream].once('data', () => child[stream].destroy());
  const [code, signal] = await once(child, 'close');
  return { code, signal, other };
}

const run = (turns: number): string => `run --model nano --turns ${turns}`;

it('engines end, and the exit code says that the work was not done', async () => {
  const { code, signal, other } = await closed('stdout', run(3), 'at once');
  expect({ code, signal }).toEqual({ code: 141, signal: null });
  expect(other).not.toContain('EPIPE');
  expect(other).not.toContain('kvferry: ');
});

it('stderr may be the closed one', async () => {
  const { code, signal, other } = await closed('stderr', run(20));
  expect({ code, signal }).toEqual({ code: 141, signal: null });
  expect(other).not.toContain('EPIPE');
});

it('a command that was at its end has its own exit code, or that one', async () => {
  const { code, signal, other } = await closed(
    'stdout',
    'simulate --mode bidirectional --arrival-rate 5 --arrivals 30',
  );
  expect([0, 141]).toContain(code);
  expect(signal).toBe(null);
  expect(other).not.toContain('EPIPE');
});

it('what cannot be kept is told, and is a failure', async () => {
  const full = openSync('/dev/full', 'w');
  const child = spawn(process.execPath, [bundled('kvferry'), '--help'], { stdio: ['ignore', full, 'pipe'] });
  let said = '';
  child.stderr!.on('data', (text) => {
    said += text;
  });
  const [code] = await once(child, 'close');
  closeSync(full);
  expect({ code, said }).toEqual({
    code: 1,
    said: 'kvferry: cannot write to standard output: ENOSPC: no space left on device, write\n',
  });
});
