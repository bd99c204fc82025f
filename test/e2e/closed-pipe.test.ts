/** An output reader that closes early, as `head` does: the program stops silently and leaves nothing running. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

type Stream = 'stdout' | 'stderr';

/**
 * Runs kvferry and closes `stream`, at once or after its first output. Resolves to the exit code, the signal and the text of
 * the other stream. A run prints all its stdout in a short burst at its end, so close stdout at once: a slow reader would
 * otherwise close it too late.
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

it('closing stdout ends the engines, and exit code 141 says that the work was not done', async () => {
  const { code, signal, other } = await closed('stdout', run(3), 'at once');
  expect({ code, signal }).toEqual({ code: 141, signal: null });
  expect(other).not.toContain('EPIPE');
  expect(other).not.toContain('kvferry: ');
});

it('closing stderr ends a run with exit code 141 too', async () => {
  const { code, signal, other } = await closed('stderr', run(20));
  expect({ code, signal }).toEqual({ code: 141, signal: null });
  expect(other).not.toContain('EPIPE');
});

it('a command whose stdout closes near its end exits with 0 or 141', async () => {
  const { code, signal, other } = await closed(
    'stdout',
    'simulate --mode bidirectional --arrival-rate 5 --arrivals 30',
  );
  expect([0, 141]).toContain(code);
  expect(signal).toBe(null);
  expect(other).not.toContain('EPIPE');
});

it.runIf(existsSync('/dev/full'))(
  'output that cannot be written is reported, and the exit code is 1',
  async () => {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [bundled('kvferry'), '--help'], {
      stdio: ['ignore', full, 'pipe'],
    });
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
  },
);

it('EOF, as Windows calls a closed pipe, is no failure either', async () => {
  const ended = 'process.stdout._write=(_,__,done)=>done(Object.assign(new Error(),{code:"EOF"}))';
  const child = spawn(
    process.execPath,
    ['--import', `data:text/javascript,${ended}`, bundled('kvferry'), '--help'],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let said = '';
  child.stderr.on('data', (text) => {
    said += text;
  });
  const [code] = await once(child, 'close');
  expect([0, 141]).toContain(code);
  expect(said).toBe('');
});
