/** Simulations in threads give what they give one after the other; what is wrong in a thread is said. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

const run = promisify(execFile);
const workload = {
  filetype: 'generate_conversations',
  num_conversations: 8,
  prompt_input: {
    num_turns: { distribution: 'uniform', min: 2, max: 4 },
    prefix_num_tokens: { distribution: 'constant', value: 100 },
    num_tokens: { distribution: 'uniform', min: 20, max: 60 },
  },
  prompt_output: { num_tokens: { distribution: 'uniform', min: 10, max: 30 } },
};
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'kvferry-jobs-'));
  await writeFile(path.join(folder, 'w.json'), JSON.stringify(workload));
});
afterAll(() => rm(folder, { recursive: true }));

const argv = [
  ...['simulate', 'w.json', '--mode', 'bidirectional', '--routing', 'round-robin,prefix-cache'],
  ...[
    '--decode',
    '2',
    '--arrival-rate',
    '2',
    '--arrivals',
    '12',
    '--faults',
    '6',
    '--start-up',
    '1s',
    '--seeds',
    '2',
  ],
];

async function simulate(jobs: number): Promise<string> {
  const file = path.join(folder, `${jobs}.json`);
  await run(process.execPath, [bundled('kvferry'), ...argv, '--jobs', String(jobs), '--json', file], {
    cwd: folder,
  });
  return readFile(file, 'utf8');
}

it('the same bytes, however many run at once', async () => {
  const one = await simulate(1);
  expect(JSON.parse(one)).toMatchObject({ arms: [{ seeds: 2 }, { seeds: 2 }] });
  expect(await simulate(3)).toBe(one);
});
