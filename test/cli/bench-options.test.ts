import { afterEach, expect, it, vi } from 'vitest';
import { joined } from '../../src/cli/bench/kernels/workbench.ts';
import { benchOptions, refuseGiven, report } from '../../src/cli/bench/options.ts';
import { widest } from './fake.ts';

const engines = (...args: string[]) =>
  benchOptions('bench:x', 'measures x', { model: 'tiny', rounds: 7 }, { 'trace FILE': 'a trace' }, args);
const noEngines = (...args: string[]) =>
  benchOptions(
    'bench:y',
    `measures y${', and more'.repeat(9)}`,
    { example: '--requests 9' },
    { 'requests N': `this many${' of them'.repeat(12)}` },
    args,
  );

afterEach(() => {
  vi.restoreAllMocks();
});

it('a benchmark takes the options that it uses, and no others', async () => {
  expect(await engines()).toEqual({
    ...{ adapter: 'auto', model: 'tiny', rounds: 7, json: false },
    ...{ own: { trace: undefined }, given: [] },
  });
  const given = ['--rounds', '3', '--trace', 't.jsonl', '--json'];
  expect(await engines(...given)).toMatchObject({ rounds: 3, own: { trace: 't.jsonl' }, json: true });
  for (const option of ['adapter', 'model', 'rounds'])
    await expect(noEngines(`--${option}`, '3')).rejects.toThrow(`Unknown option '--${option}'; --help lists`);
  await expect(engines('--rounds', '0')).rejects.toThrow('--rounds is 0: wanted a whole number');
});

it("a benchmark's help lists its options and an example", async () => {
  const said: string[] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => said.push(String(text)) > 0);
  vi.spyOn(process, 'exit').mockImplementation((code) => {
    throw new Error(`exit ${code}`);
  });
  await expect(engines('--help')).rejects.toThrow('exit 0');
  await expect(noEngines('--help')).rejects.toThrow('exit 0');
  const [one, other] = said as [string, string];
  expect(one).toContain('  --model NAME     a preset or a directory (tiny)\n');
  expect(one).toContain('  --trace FILE     a trace\n');
  expect(one).toContain('example: npm run bench:x -- --adapter lavapipe --json figures.json\n');
  expect(other).not.toMatch(/--adapter|--model|--rounds/);
  expect(widest(one + other)).toBeLessThanOrEqual(80);
  expect(other).toContain('example: npm run bench:y -- --requests 9 --json figures.json\n');
});

it('a benchmark refuses a file for figures that cannot be written before it measures anything', async () => {
  await expect(engines('--json', '/no/such/folder/figures.json')).rejects.toThrow(
    'cannot write /no/such/folder/figures.json',
  );
});

it("a benchmark's sentences are wrapped to 80 columns, with their indentation", async () => {
  const said: string[] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => said.push(String(text)) > 0);
  const table = `1    2${' '.repeat(70)}3`;
  report(await engines(), [table, `  ${'word '.repeat(30).trim()}`], {});
  const lines = said.join('').trimEnd().split('\n');
  expect(lines[0]).toBe(table);
  expect(widest(said.join(''))).toBeLessThanOrEqual(80);
  expect(lines.slice(1).map((line) => line.search(/\S/))).toEqual([2, 4]);
});

it('an option that another one makes useless is refused', async () => {
  const options = await engines('--rounds', '3');
  expect(() => refuseGiven(options, ['trace'], 'has no effect')).not.toThrow();
  expect(() => refuseGiven(options, ['trace', 'rounds'], 'has no effect with --duration')).toThrow(
    '--rounds has no effect with --duration: leave it out',
  );
});

it('a figure joined from several turns has the times of all and the rates of the best', () => {
  const turns = [{ of: { ms: [3, 4], gflops: 1 } }, { of: { ms: [9, 2], gflops: 2 } }];
  expect(joined(turns, 'of')).toEqual({ ms: [3, 4, 9, 2], gflops: 2 });
});
