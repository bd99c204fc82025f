import { describe, expect, test } from 'vitest';
import { lengthTable, regretLine } from '../../src/cli/multiturn/path-tables.ts';
import { plainStyle } from '../../src/cli/output/table.ts';
import { benchReportSchema, type Experiment } from '../../src/measure/schemas/bench-report.ts';
import { generator } from '../workload/generator.ts';
import { benchOf } from './fake-bench.ts';

const spec = generator({
  conversations: 6,
  turns: 8,
  common: 10,
  prefix: [20, 40],
  input: [5, 9],
  output: 6,
});
const bench = (...options: string[]) => benchOf(spec)(['gen.json', ...options]);

test.each([
  [4, /both 50%. With only 4 requests, other load on the machine matters more.$/],
  [40, /both 50% \(40 requests\).$/],
])(
  'the regret line of %d requests says what each way lost and how many requests that is from',
  (requests, wanted) => {
    const regret = { pull: { regret_ms: 0, share: 0 }, both: { regret_ms: 9, share: 0.5 } };
    const experiment = { regret, modes: {}, by_length: [{ requests }] } as unknown as Experiment;
    expect(regretLine(experiment)).toMatch(wanted);
  },
);

test('the table by length fits three lengths in 80 columns', () => {
  const interval = (value: number) => ({ value, low: value * 0.93, high: value * 1.31 });
  const ways = (ms: number) =>
    Object.fromEntries(
      ['recompute', 'cost_aware', 'pull'].map((key, i) => [
        key,
        { ttft_ms: interval(ms), times_faster: i === 0 ? null : interval(ms / 11.7) },
      ]),
    );
  const by_length = [1958, 388, 171].map((ms, i) => ({
    ...{ from_tokens: 1000 * i, to_tokens: 1000 * i + 999, requests: 9, ways: ways(ms) },
    ...{ best: 'pull', ahead_of: { way: 'cost_aware', times_faster: interval(1.2) }, sure: false },
  }));
  const modes = { cost_aware: { label: 'cost-aware' } };
  const lines = lengthTable({ by_length, modes } as unknown as Experiment, plainStyle);
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
  // Ways that cannot be told apart are marked alike.
  expect(lines.filter((line) => line.includes('*')).map((line) => line.split(' ')[0])).toEqual([
    'cost-aware',
    'pull',
  ]);
});

describe('kvferry bench --paths', () => {
  const usual = ['--paths', '--num-clients', '2', '--rounds', '3', '--json', 'out.json'];

  test('serves every way over every link from the same pools, and writes a report that fits its schema', async () => {
    const { code, report, world } = await bench(...usual, '--html', 'out.html', '--markdown', 'out.md');
    expect(world.err()).not.toMatch(/bug/);
    for (const link of ["memory's speed", 'modelled link 20e6,10ms'])
      expect(world.err()).toContain(`round 1 of 3, no-prefix-caching, ${link}, recompute: `);
    expect(code).toBe(0);
    expect(benchReportSchema.parse(report)).toEqual(report);
    const experiments = Object.values(report!.experiments);
    expect(Object.keys(report!.experiments)).toEqual([
      'no_prefix_caching',
      'no_prefix_caching_20e6_10ms',
      'eviction',
      'eviction_20e6_10ms',
    ]);
    expect(experiments.map(({ link }) => link)).toEqual([null, '20e6,10ms', null, '20e6,10ms']);
    for (const { modes, p_blocks, d_blocks, by_length } of experiments) {
      expect(Object.values(modes).map(({ label, mode }) => [label, mode])).toEqual([
        ['recompute', 'unidirectional'],
        ['pull', 'bidirectional'],
        ['store', 'unidirectional'],
        ['pd-reuse', 'unidirectional'],
        ['both', 'bidirectional'],
      ]);
      const pools = Object.values(modes).map(({ path }) => [
        path!.memory.p_pool_bytes,
        path!.memory.d_pool_bytes,
      ]);
      expect(new Set(pools.map(String)).size).toBe(1);
      expect(pools[0]).toEqual([p_blocks! * 4096, d_blocks! * 4096]);
      expect(by_length!.map(({ best }) => ['pull', 'both'].includes(best))).toEqual([true, true, true]);
    }
    // In the tight experiments D's holds take room in a pool as small as P's.
    const [roomy, , tight] = experiments;
    expect(tight!.d_blocks).toBe(tight!.p_blocks);
    expect(tight!.d_blocks).toBeLessThan(roomy!.d_blocks!);
    for (const file of ['out.html', 'out.md']) expect(world.files.get(file)).toContain('KV traffic');
  });

  test('prints tables of at most 80 columns, and names wins and losses', async () => {
    const { world } = await bench('--paths', '--num-clients', '2', '--rounds', '2');
    for (const line of world.out().split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
    const said = world.out().replaceAll('\n', ' ');
    for (const head of ['times faster [95% interval]', 'between engines', 'held on D for P', 'tokens  '])
      expect(said).toContain(head);
    expect(said).toMatch(/keeps nothing between turns; memory's speed: \d+ to \d+ tokens: /);
    expect(world.err()).toMatch(/round 2 of 2, eviction, modelled link 20e6,10ms, pd-reuse: 24 requests/);
  });

  test('serves only the ways and links asked for, with the same figures for the same seed', async () => {
    const run = async (seed: string) => {
      const { report } = await bench(
        ...['--paths', 'first-hit,both', '--link', '1gbe', '--rounds', '1'],
        '--seed',
        seed,
        '--json',
        'out.json',
      );
      const { modes, by_length } = report!.experiments.no_prefix_caching_1gbe!;
      expect(Object.keys(modes)).toEqual(['first_hit', 'both']);
      return by_length;
    };
    expect(await run('3')).toEqual(await run('3'));
    expect(await run('3')).not.toEqual(await run('4'));
  });

  test.each([
    [['--paths', 'pulls'], /--paths is 'pulls': wanted one or more of recompute, .*did you mean pull\?/],
    [['--link', 'none,1gbe'], /--link names 2 links: give one, or --paths/],
    [
      ['--paths', '--store-dir', 'kv'],
      /--paths is given, and --store-dir keeps KV from one path to the next/,
    ],
    [['--paths', '--endpoint', 'http://localhost:1'], /--endpoint measures a server/],
    [['--paths', '--kv-transfer-config', '{"kv_connector":"NixlConnector"}'], /sets the connectors/],
    [['--paths', '--handover', 'streamed'], /--handover is streamed/],
    [['--paths', '--pull-policy', 'cost-aware'], /--pull-policy is cost-aware: add cost-aware to --paths/],
    [
      ['--paths', 'pull,cost-aware', '--cost-profile', 'c.json'],
      /--cost-profile is for one link, and --link names 2/,
    ],
    [['--paths', '--routing', 'round-robin,llm-d'], /--routing names several policies/],
  ] as const)('refuses %j and names the option', async (options, message) => {
    const { code, world } = await bench(...options);
    expect(code).toBe(2);
    expect(world.err()).toMatch(message);
    expect(world.clusters).toHaveLength(0);
  });

  test('refuses a fleet file with links, over which KV would move whatever --link says', async () => {
    const rolesets = [{ node: 'a', prefill: 1, decode: 1 }];
    const run = (links: object) =>
      benchOf(spec)(
        ['gen.json', '--paths', '--fleet', 'f.json', '--num-clients', '2', '--rounds', '1'],
        {},
        {
          'f.json': JSON.stringify({ rolesets, ...links }),
        },
      );
    expect((await run({})).code).toBe(0);
    const { code, world } = await run({ sameNode: '20e6,10ms' });
    expect(code).toBe(2);
    expect(world.err()).toMatch(/--paths is given, and --fleet sets links of single pairs/);
  });
});
