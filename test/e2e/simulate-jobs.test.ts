/** Simulations in parallel threads give the same results as sequential ones. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';
import { generator } from '../workload/generator.ts';

const run = promisify(execFile);
const workload = generator({
  conversations: 8,
  turns: [2, 4],
  prefix: 100,
  input: [20, 60],
  output: [10, 30],
});
/** A policy that always takes the last engines. */
const LAST = `export default {
  name: 'last',
  create: () => ({ route: (_, { prefill, decode }) => ({ prefill: prefill.at(-1), decode: decode.at(-1) }) }),
};`;
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'kvferry-jobs-'));
  await writeFile(path.join(folder, 'w.json'), JSON.stringify(workload));
  await writeFile(path.join(folder, 'last.mjs'), LAST);
});
afterAll(() => rm(folder, { recursive: true }));

const argv = {
  simulate:
    'simulate w.json --mode bidirectional --routing-module last.mjs --routing round-robin,last --decode 2 --arrival-rate 2 --arrivals 12 --faults 6 --start-up 1s --seeds 2',
  plan: 'plan w.json --sample 40 --routing-module last.mjs --routing last,least-request --slo-ttft 100ms --rate 4',
};

async function kvferry(command: keyof typeof argv, jobs: number): Promise<string> {
  const file = path.join(folder, `${command}-${jobs}.json`);
  const words = `${argv[command]} --jobs ${jobs} --json`.split(' ');
  await run(process.execPath, [bundled('kvferry'), ...words, file], { cwd: folder });
  return readFile(file, 'utf8');
}

it('simulate writes the same report with any number of --jobs', async () => {
  const one = await kvferry('simulate', 1);
  expect(JSON.parse(one)).toMatchObject({ arms: [{ seeds: 2 }, { seeds: 2 }] });
  expect(await kvferry('simulate', 3)).toBe(one);
});

it('plan writes the same report with any number of --jobs', async () => {
  const one = await kvferry('plan', 1);
  expect(JSON.parse(one)).toMatchObject({ chosen: { met: true } });
  expect(await kvferry('plan', 2)).toBe(one);
});

it.each([
  'simulate w.json --arrival-rate 20 --arrivals 200000 --jobs 2',
  'plan w.json --sample 20000 --slo-ttft 100ms --rate 4 --jobs 2',
])('Ctrl-C ends the threads and exits with 130: %s', async (argv) => {
  const words = [bundled('kvferry'), ...argv.split(' ')];
  const child = spawn(process.execPath, words, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  // The first output comes once work has begun.
  child.stderr.once('data', () => child.kill('SIGINT'));
  const [code, signal] = await once(child, 'close');
  expect({ code, signal }).toEqual({ code: 130, signal: null });
});
