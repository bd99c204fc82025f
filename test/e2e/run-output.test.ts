/** Everything that `run` prints and writes, from real engines. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { reportSchema } from '../../src/measure/schemas/report.ts';
import { bundled } from '../../src/platform/node/paths.ts';
import { TEST_ADAPTER } from '../adapter.ts';

it('one run gives every output, and they agree', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'kvferry-output-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const argv = [
    ...['run', '--model', 'nano', '--mode', 'unidirectional,bidirectional', '--turns', '3'],
    ...['--user-tokens', '24', '--output-tokens', '6', '--gantt', '2', '--profile', '--explain-routing'],
    ...['--trace-out', 'trace.json', '--record', 'recording.json', '--html', 'report.html'],
    ...['--markdown', 'report.md', '--junit', 'report.xml', '--json', 'report.json'],
    ...(TEST_ADAPTER === 'gpu' ? [] : ['--adapter', TEST_ADAPTER]),
  ];
  const { stdout } = await promisify(execFile)(process.execPath, [bundled('kvferry'), ...argv], {
    cwd: folder,
  });
  const written = (name: string) => readFile(path.join(folder, name), 'utf8');
  const { runs, timeline } = reportSchema.parse(JSON.parse(await written('report.json')));

  expect(stdout).toContain('All 2 modes agree');
  expect(stdout).toContain('turn 2, bidirectional: what the first token waited for');
  const drawn = Number(/^to the first token +([\d.]+)$/m.exec(stdout)?.[1]);
  const counted = runs[1]!.turns.find(({ turn }) => turn === 2)!.ttft_ms;
  expect(Math.abs(drawn - counted)).toBeLessThan(0.02 * counted + 0.1);
  expect(stdout).toMatch(/^P prefill +/m);
  expect(stdout).toMatch(/^D→P /m);
  expect(stdout).toContain('random-1 turn 3: prefill-0 to decode-0');
  expect(stdout).toContain('Kernels of bidirectional, run once more');
  expect(stdout).toMatch(/^attention +\d/m);

  const { traceEvents } = JSON.parse(await written('trace.json')) as {
    traceEvents: { name: string; dur?: number }[];
  };
  const traced = traceEvents.filter(({ name }) => name === 'ttft').map(({ dur }) => dur! / 1000);
  const all = runs.flatMap(({ turns }) => turns.map(({ ttft_ms }) => ttft_ms));
  expect(traced).toHaveLength(all.length);
  for (const [i, ms] of all.entries()) expect(traced[i]).toBeCloseTo(ms, 1);
  expect(timeline!.spans.length).toBeGreaterThan(5);

  expect(JSON.parse(await written('recording.json'))).toHaveProperty('events');
  const html = await written('report.html');
  expect(html).toContain('<svg');
  expect(html).toContain('bidirectional');
  expect(await written('report.md')).toContain('✅ all modes give the same tokens');
  expect(await written('report.xml')).toMatch(/<testsuites name="kvferry run" tests="\d+" failures="0"/);
});
