/** Ctrl-C, once and twice, as a user of the program presses it. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

/** Presses Ctrl-C when stderr has each of the two texts, and resolves when the program has ended. */
async function interrupted(
  argv: readonly string[],
  texts: readonly [string, string],
  flags: readonly string[] = [],
  pressing: NodeJS.Signals = 'SIGINT',
) {
  const child = spawn(process.execPath, [...flags, bundled('kvferry'), ...argv], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  let pressed = 0;
  child.stderr.on('data', (text) => {
    said += text;
    for (const [times, told] of texts.entries())
      if (pressed === times && said.includes(told)) {
        pressed++;
        child.kill(pressing);
      }
  });
  const [code, signal] = await once(child, 'close');
  return { said, pressed, code, signal };
}

it('a second Ctrl-C while engines start ends the program at once, without a crash', async () => {
  const argv = ['run', '--model', 'nano', '--prefill', '3', '--decode', '3'];
  const { said, code, signal } = await interrupted(argv, ['starting', 'interrupted']);
  expect(said).not.toContain('FATAL');
  // 130 if the engines had ended before.
  expect(['SIGINT', 130]).toContain(signal ?? code);
});

it.each(['simulate --trace', 'report', 'run --config'])(
  'one Ctrl-C ends a program that reads a pipe to which nobody writes: %s',
  async (argv) => {
    const closeLater: number[] = [];
    const folder = mkdtempSync(path.join(tmpdir(), 'kvferry-pipe-'));
    try {
      const pipe = path.join(folder, 'pipe');
      execFileSync('sh', ['-c', 'mkfifo "$0"', pipe]);
      const child = spawn(process.execPath, [bundled('kvferry'), ...argv.split(' '), pipe], {
        stdio: 'ignore',
      });
      const ended = once(child, 'close');
      // Succeeds once the program has opened the pipe.
      const writer = () => openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
      await expect.poll(() => closeLater.push(writer())).toBe(1);
      child.kill('SIGINT');
      expect(await ended).toEqual([null, 'SIGINT']);
    } finally {
      for (const file of closeLater.splice(0)) closeSync(file);
      rmSync(folder, { recursive: true });
    }
  },
);

it('a second SIGTERM ends the program by SIGTERM', async () => {
  const argv = ['simulate', '--arrivals', '500', '--arrival-rate', '5'];
  // Held at the first signal, so that it cannot end on its own before the second.
  const held = 'data:text/javascript,setInterval(() => {}, 1e6);';
  const { signal } = await interrupted(argv, ['to do', 'interrupted'], ['--import', held], 'SIGTERM');
  expect(signal).toBe('SIGTERM');
});

const canBeFirst = spawnSync('unshare', ['-pf', '--mount-proc', '--kill-child', 'true']).status === 0;

it.runIf(canBeFirst)(
  "a second SIGTERM ends a container's first process, without a native stack trace",
  async () => {
    const held = 'data:text/javascript,setInterval(() => {}, 1e6);';
    const program = [process.execPath, '--import', held, bundled('kvferry')];
    const argv = ['simulate', '--arrivals', '500', '--arrival-rate', '5'];
    const child = spawn('unshare', ['-pf', '--mount-proc', '--kill-child', ...program, ...argv], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    const told = ['to do', 'interrupted'];
    child.stderr.on('data', (text) => {
      said += text;
      if (told.length === 0 || !said.includes(told[0]!)) return;
      told.shift();
      const first = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8');
      process.kill(Number(first), 'SIGTERM');
    });
    const [code, signal] = await once(child, 'close');
    expect(told).toEqual([]);
    expect(said).not.toMatch(/node:events|Native stack|----- /);
    expect(code ?? signal).toBe('execve' in process ? 143 : 'SIGSEGV');
  },
);

it.runIf(canBeFirst)("a container's first process ends at a SIGTERM before it has loaded", () => {
  // Sent when the first listener is added.
  const early = `data:text/javascript,process.on('newListener', (name) => {
    if (name === 'SIGTERM') setImmediate(() => process.kill(1, name));
  });`;
  const program = [process.execPath, '--import', early, bundled('kvferry'), 'export', 'vllm'];
  const { status, stdout, stderr } = spawnSync('unshare', [
    '-pf',
    '--mount-proc',
    '--kill-child',
    ...program,
  ]);
  expect(status).toBe(143);
  // Node 26 has loaded it before the event loop turns, so the loaded program hears the signal.
  expect(`${stdout}${stderr}`).toMatch(/^(\ninterrupted: [^\n]+\n)?$/);
});

it('a second Ctrl-C gives the terminal its cursor and its line wrapping back, which the bar took', async () => {
  const argv = ['simulate', '--arrivals', '500', '--arrival-rate', '5'];
  const terminal = ['--import', 'data:text/javascript,process.stderr.isTTY=true'];
  const { said, pressed } = await interrupted(argv, ['\x1b[?25l\x1b[?7l', 'interrupted'], terminal);
  expect(pressed).toBe(2);
  expect(said.lastIndexOf('\x1b[?25h')).toBeGreaterThan(said.lastIndexOf('\x1b[?25l'));
  expect(said.lastIndexOf('\x1b[?7h')).toBeGreaterThan(said.lastIndexOf('\x1b[?7l'));
});
