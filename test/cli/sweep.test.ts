import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { styleOf } from '../../src/cli/output/table.ts';
import { sweepLines } from '../../src/cli/sweep-output.ts';
import { sweepReportSchema } from '../../src/measure/schemas/sweep-report.ts';
import { sweepParts } from '../../src/report/sweep.ts';
import { fakeWorld } from './fake.ts';

const sweep = async (argv: string, world = fakeWorld()) => ({
  code: await main(['sweep', '--model', 'nano', ...argv.split(' ').filter(Boolean)], world.deps),
  world,
});

describe('kvferry sweep', () => {
  it('uses no store, even if a config file has one, since it would load what is to be recomputed', async () => {
    const world = fakeWorld({}, { 'shared.json': '{"store": "64MiB"}' });
    const { code } = await sweep('--context 16 --rounds 1 --config shared.json', world);
    expect(world.out()).toMatch(/\n\nPulling always/);
    expect(code).toBe(0);
    expect(world.clusters[0]!.options.connector.name).toBe('MultiConnector');
    expect(world.clusters[0]!.settings.connector.name).toBe('NixlConnector');
    const refused = await sweep('--store 64MiB');
    expect(refused.code).toBe(2);
    expect(refused.world.err()).toContain('--store');
  });

  it('measures links, contexts, block sizes and layouts, and writes a table, CSV and JSON', async () => {
    const { code, world } = await sweep(
      '--context 64,16 --rounds 3 --link none,10e6,1ms,1gbe --block-size 16,32 --layout contiguous,layer-pieces --csv out.csv --json out.json --threshold 32',
    );
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const report = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    expect(report.complete).toBe(true);
    // 2 block sizes x 2 layouts x 3 links.
    expect(report.series).toHaveLength(12);
    expect(world.clusters).toHaveLength(4);
    expect(world.clusters.every(({ closed }) => closed === 1)).toBe(true);
    expect(report.series.slice(0, 3).map(({ link }) => link?.name ?? null)).toEqual([
      null,
      '10e6,1ms',
      '1gbe',
    ]);
    expect(report.series.map(({ throttled }) => throttled).slice(0, 2)).toEqual([false, true]);
    const [first] = report.series;
    expect(first!.points.map(({ context_tokens }) => context_tokens)).toEqual([16, 64]);
    // 10 ms plus 1 ms per computed token: the new ones and D's last, or those and the context.
    expect(first!.points[0]!.pull).toMatchObject({ ttft_ms: [27, 27, 27], pulled_tokens: 16 });
    expect(first!.points[0]!.recompute!.median).toBe(43);
    expect(first!.crossover).toEqual({ kind: 'pull_always_wins' });
    expect(first!.thresholds).toEqual([
      { threshold: 32, total_ttft_ms: 43 + 27, regret_ms: 16 },
      { threshold: null, total_ttft_ms: 43 + 91, regret_ms: 80 },
    ]);
    const csv = world.files.get('out.csv')!.trim().split('\n');
    // Three ways, three rounds, two contexts, twelve series; and a header.
    expect(csv).toHaveLength(1 + 3 * 3 * 2 * 12);
    expect(csv[1]!.split(',').slice(0, 8).join(',')).toBe('none,false,16,contiguous,0,16,pull,1');
    expect(world.out()).toContain('Pulling always wins in the measured range');
    expect(world.out()).toContain('throttled (modelled link)');
    for (const line of world.out().split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  it('prints times and rates of three figures within 80 columns', async () => {
    const { world } = await sweep('--context 16,64 --rounds 3 --json out.json');
    const report = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    for (const { pull, recompute } of report.series[0]!.points) {
      for (const times of [pull!, recompute!]) Object.assign(times, { median: 44.4, p25: 43.9, p75: 66 });
      Object.assign(pull!, { bytes: 4096, gbps: 0.000924 });
    }
    const lines = sweepLines(report, styleOf(false));
    expect(lines.join('\n')).toContain('44.4 [43.9, 66.0] 44.4 [43.9, 66.0]');
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });

  it('names no winner at a length if the rounds disagree', async () => {
    const { world } = await sweep('--context 16,64 --rounds 3 --json out.json');
    const report = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    report.series[0]!.points[0]!.winner = 'neither';
    const said = 'Pulling wins at 1 of 2 lengths and makes no difference at 1';
    expect(sweepLines(report, styleOf(false)).join(' ')).toContain(`${said} in the measured range`);
    expect(sweepParts(report).headline).toBe(said);
  });

  it('names no crossover if pulling surely wins nowhere', async () => {
    const { world } = await sweep('--context 16,64 --rounds 3 --json out.json');
    const report = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    const [series] = report.series;
    series!.crossover = { kind: 'crosses', tokens: 30, low: 20, high: null };
    const [short, long] = series!.points;
    short!.winner = 'recompute';
    long!.winner = 'neither';
    const said = 'Pulling makes no difference at 1 of 2 lengths and loses at 1';
    expect(sweepLines(report, styleOf(false)).join(' ')).toContain(`${said} in the measured range`);
    expect(sweepParts(report).headline).toBe(said);
  });

  it.each([
    [
      1,
      null,
      'Pulling wins from 30 tokens on (from one round, so without an interval)',
      'Crossover at 30 tokens (from one round, so without an interval)',
    ],
    [
      3,
      20,
      'Pulling wins from 30 tokens on (95%: 20 to above the longest)',
      'Crossover at 30 tokens (95% interval: 20 to above 64)',
    ],
    [
      3,
      null,
      'No sure crossover: the medians cross at 30 tokens, the rounds anywhere',
      'No sure crossover: the medians cross at 30 tokens, the rounds anywhere from below 16 to above 64',
    ],
  ])(
    'says how certain a crossover from %i rounds with lower end %s is, on the page as in the terminal',
    async (rounds, low, page, terminal) => {
      const { world } = await sweep(`--context 16,64 --rounds ${rounds} --json out.json`);
      const report = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
      report.series[0]!.points[0]!.winner = 'recompute';
      report.series[0]!.crossover = { kind: 'crosses', tokens: 30, low, high: null };
      expect(sweepParts(report).headline).toBe(page);
      expect(sweepLines(report, styleOf(false)).join(' ')).toContain(terminal);
    },
  );

  it('measures only the ways that --mode names', async () => {
    const { world } = await sweep('--context 16,32 --rounds 1 --mode unidirectional --json out.json');
    const { series } = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    expect(series[0]!.points[0]).toMatchObject({ pull: null, monolithic: null, winner: null });
    expect(series[0]!.crossover).toBeNull();
  });

  it('takes lists from a config file too', async () => {
    const world = fakeWorld({}, { 'c.json': '{"link":["none","1gbe"],"context":[16],"rounds":1}' });
    const { code } = await sweep('--config c.json --json out.json', world);
    expect(code).toBe(0);
    expect(sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!)).series).toHaveLength(2);
  });

  it('needs pools with blocks for every KV group of a model with windows, as they have by default', async () => {
    const world = fakeWorld();
    const hybrid = (...args: string[]) =>
      main(['sweep', '--model', 'tiny-hybrid', '--rounds', '1', ...args], world.deps);
    expect(await hybrid('--context', '16,512', '--p-blocks', '75', '--d-blocks', '75')).toBe(2);
    expect(world.err()).toContain('a pool has 75 blocks and two turns of 530 tokens need');
    expect(world.clusters).toHaveLength(0);
    expect(await hybrid('--context', '16,512')).toBe(0);
  });

  it.each([
    ['--context 16,many', "--context is '16,many': wanted whole numbers of tokens"],
    ['--context 16 --block-size 16,17', "--block-size is '17': wanted one of 8, 16, 32, 64, 128 tokens"],
    ['--link 10e6,1ms,10gbee', "'10gbee' is neither a preset nor a rate; did you mean 10gbe?"],
    ['--layout contiguous,pieces', "--layout is 'pieces': wanted one of contiguous, layer-pieces"],
    ['--context 9000', "the longest turn has 9018 tokens and the model's context is"],
    ['--context 16 --local-hit 20', '--local-hit is 20 tokens, but a prefix cache keeps whole blocks of 16'],
    ['--context 512 --p-blocks 40', 'a pool has 40 blocks and two turns'],
    ['--context 16 --csv /read-only/x.csv', 'cannot write /read-only/x.csv'],
    ['--mode decode-local', '--mode is decode-local: a sweep needs one or more of'],
    ['--threshold 64,-1', "--threshold is '-1'"],
  ])('refuses %s before anything starts', async (argv, sentence) => {
    const { code, world } = await sweep(argv);
    expect(world.err()).toContain(sentence);
    expect(code).toBe(2);
    expect(world.clusters).toHaveLength(0);
  });

  it('says that the handover is streamed', async () => {
    const { world } = await sweep('--context 16,64 --rounds 2 --handover streamed --markdown out.md');
    for (const text of [world.out(), world.files.get('out.md')!])
      expect(text).toContain("streamed handover (kvferry's own)");
  });

  it('writes what it has if it is interrupted, and exits with 130', async () => {
    const world = fakeWorld();
    const start = world.deps.backend.startCluster;
    let serves = 0;
    world.deps.backend.startCluster = async (options) => {
      const cluster = await start(options);
      const generate = cluster.generate.bind(cluster);
      cluster.generate = (request) => {
        if (++serves === 14) world.interrupt();
        return generate(request);
      };
      return cluster;
    };
    const { code } = await sweep('--context 16,32 --rounds 2 --json out.json', world);
    expect(code).toBe(130);
    const report = sweepReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    expect(report.complete).toBe(false);
    expect(report.series[0]!.points).toHaveLength(1);
    expect(world.out()).toContain('INCOMPLETE');
    expect(world.clusters[0]!.closed).toBe(1);
  });
});
