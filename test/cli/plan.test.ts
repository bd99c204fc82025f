import { PassThrough } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { main } from '../../src/cli/app.ts';
import { planSpec } from '../../src/cli/commands/plan.ts';
import type { CliDeps } from '../../src/cli/deps.ts';
import { workOf } from '../../src/cli/simulate/thread-work.ts';
import { fleetFileSchema } from '../../src/config/fleet-schema.ts';
import { type PlanReport, planReportSchema } from '../../src/measure/schemas/plan-report.ts';
import { simulationReportSchema } from '../../src/measure/schemas/simulation-report.ts';
import { generator } from '../workload/generator.ts';
import { schemas } from './export-schemas.ts';
import { fakeWorld, widest } from './fake.ts';

// Each test runs some dozen simulations.
vi.setConfig({ testTimeout: 180_000 });

/** Turns of 100 tokens each, all different; P takes 1 ms a token. */
const workload = JSON.stringify(generator({ conversations: 12, turns: 2, prefix: 0, input: 100, output: 5 }));
const costs = JSON.stringify({
  kvferry_simulation_costs: 1,
  name: 'mine',
  source: 'fitted',
  step: { ms_per_prefill_token: 1, ms_per_decode: 0.5 },
});
const row = (i: number) =>
  `${JSON.stringify({ timestamp: 60 * i, input_length: 512, output_length: 20, hash_ids: [1000 + i] })}\n`;
const TRACE = Array.from({ length: 140 }, (_, i) => row(i)).join('');
const FILES = { 'w.json': workload, './mine.json': costs, 't.jsonl': TRACE };

/** `deps` on a machine with `cores` processors. */
const machineOf = (deps: CliDeps, cores: number): CliDeps => ({
  ...deps,
  machine: () => ({ ...deps.machine(), cores }),
});

async function kvferry(argv: string, files: Record<string, string> = FILES) {
  const world = fakeWorld({}, files);
  const code = await main(argv.split(' ').filter(Boolean), machineOf(world.deps, 1));
  return { code, world };
}

const small =
  'w.json --costs ./mine.json --sample 100 --routing round-robin --threshold 64 --mode bidirectional';
const parsed = (text: string | undefined): PlanReport => planReportSchema.parse(JSON.parse(text!));

describe('kvferry plan', () => {
  it('tries thresholds divided like the lengths of the workload or trace', () => {
    const tried = (given: Record<string, unknown>) => planSpec.defaults!(given, []).threshold;
    expect(tried({})).toBe('64,1024');
    expect(tried({ scale: '1/16' })).toBe('4,64');
    expect(tried({ trace: 't.jsonl' })).toBe('64,1024');
    expect(tried({ trace: 't.jsonl', traceScale: '1/32' })).toBe('2,32');
  });

  it('names modelled links and a streamed handover', async () => {
    const argv = `plan ${small} --slo-ttft 9s --rate 1 --max-engines 2 --json out.json --markdown out.md`;
    const { world } = await kvferry(`${argv} --link 1gbe --handover streamed`);
    for (const text of [world.out(), world.files.get('out.md')!]) {
      expect(text).toContain('Modelled links: 1gbe.');
      expect(text).toContain("streamed handover (kvferry's own)");
    }
    expect(parsed(world.files.get('out.json'))).toMatchObject({ links: '1gbe', handover: 'streamed' });
  });

  it('finds a fleet, states its certainty and cost model, and writes the same bytes for a seed', async () => {
    const argv = `plan ${small} --slo-ttft 300ms --slo-tpot 50ms --rate 28 --json out.json --html page.html --markdown page.md --fleet-out it's.json`;
    const { code, world } = await kvferry(argv);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const report = parsed(world.files.get('out.json'));
    expect(report).toMatchObject({
      costs: { name: 'mine', source: 'fitted' },
      goal: { kind: 'fewest', requests_per_second: 28 },
      slo: { ttft_ms: 300, tpot_ms: 50, attainment: 0.9 },
      closest: null,
    });
    const chosen = report.chosen!;
    // A turn takes P 100 ms or more, so two P would be busy all the time.
    expect(chosen.prefill).toBeGreaterThan(2);
    expect(chosen.share).toBeGreaterThanOrEqual(0.9);
    expect(chosen.low).toBeLessThanOrEqual(chosen.share);
    const sizes = report.front.map(({ engines }) => engines);
    expect(sizes).toEqual(sizes.toSorted((a, b) => a - b));
    expect(sizes.slice(0, 2)).toEqual([chosen.engines - 1, chosen.engines]);
    expect(report.front[0]).toEqual(report.one_fewer);
    expect(report.one_fewer!.met).toBe(false);
    // Quoted for a shell.
    expect(report.commands[0]).toContain(String.raw`--fleet 'it'\''s.json'`);
    const out = world.out();
    expect(out).toContain('Cost model (fitted): mine');
    expect(out).toMatch(/interval/);
    expect(widest(out)).toBeLessThanOrEqual(80);
    for (const command of report.commands) expect(out.replace(/ \\\n */g, ' ')).toContain(`  ${command}\n`);
    expect(world.files.get('page.html')).toContain('Requests that meet the SLO, by number of engines');
    expect(world.files.get('page.md')).toContain(`${chosen.prefill} P + ${chosen.decode} D`);
    const again = await kvferry(argv);
    expect(again.world.files.get('out.json')).toBe(world.files.get('out.json'));
    const other = await kvferry(`${argv} --seed 5`);
    expect(other.world.files.get('out.json')).not.toBe(world.files.get('out.json'));
  });

  it('marks a fleet whose queue grows, though all its requests keep the limits that there are', async () => {
    const { code, world } = await kvferry(`plan ${small} --slo-tpot 50ms --rate 15 --json out.json`);
    expect(code).toBe(0);
    const [fewer] = parsed(world.files.get('out.json')).front;
    expect(fewer).toMatchObject({ engines: 2, share: 1, met: false });
    expect(world.out()).toMatch(/^! +1 +1 +round-robin/m);
    expect(world.out()).toContain('!: requests arrive faster than they are served.');
  });

  it.each([
    ['plan', `${small} --slo-ttft 300ms --rate 28`, 'No plan: 1 simulation had begun'],
    [
      'simulate',
      'w.json --costs ./mine.json --arrival-rate 5',
      'No report: it needs all simulations to finish',
    ],
  ])(
    'stops the progress bar of %s on Ctrl-C, and says that there is no result',
    async (command, argv, said) => {
      const world = fakeWorld({}, FILES);
      const drawn = { text: '' };
      const progressStream = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
      progressStream.on('data', (text) => {
        if (drawn.text === '') world.interrupt();
        drawn.text += text;
      });
      const deps = {
        ...machineOf(world.deps, 1),
        stderr: { ...world.deps.stderr, isTTY: true },
        progressStream: progressStream as unknown as CliDeps['progressStream'],
      };
      expect(await main([command, ...argv.split(' '), '--json', 'out.json'], deps)).toBe(130);
      expect(world.err()).toContain(said);
      expect(world.files.has('out.json')).toBe(false);
      expect(widest(world.err())).toBeLessThanOrEqual(80);
      // The cursor is shown again once the bar has stopped; until then its timer keeps the process alive.
      await expect.poll(() => drawn.text).toContain('\u001b[?25h');
    },
  );

  it.each([
    ['--jobs 3', 2],
    ['', 3],
  ])(
    'writes the same bytes from one thread per processor, or as many as --jobs says: %s',
    async (jobs, cores) => {
      const argv = `plan ${small.replace('round-robin', 'round-robin,least-request')} --slo-ttft 300ms --rate 12 --json out.json`;
      const alone = await kvferry(argv);
      const world = fakeWorld({}, FILES);
      let [threads, atOnce, most] = [0, 0, 0];
      const startSimulationThread: CliDeps['startSimulationThread'] = (work, config) => {
        threads++;
        const does = workOf(work, structuredClone(config), world.deps);
        return {
          async run(job) {
            most = Math.max(most, ++atOnce);
            const result = await (await does)(structuredClone(job));
            atOnce--;
            return structuredClone(result);
          },
          async end() {
            threads--;
          },
        };
      };
      const deps = machineOf({ ...world.deps, startSimulationThread }, cores);
      expect(await main(`${argv} ${jobs}`.split(' ').filter(Boolean), deps)).toBe(0);
      expect(world.files.get('out.json')).toBe(alone.world.files.get('out.json'));
      expect({ threads, most }).toEqual({ threads: 0, most: 3 });
    },
  );

  it('has room for the same tokens in every KV cache group, unless told otherwise', async () => {
    const argv = `plan ${small} --model gemma-3-1b --slo-ttft 900ms --rate 2 --p-blocks 3000 --json out.json`;
    const { world } = await kvferry(argv);
    // 262,144 tokens in blocks of 128, in seven groups.
    expect(parsed(world.files.get('out.json')).engine).toMatchObject({ p_blocks: 3000, d_blocks: 7 * 2048 });
  });

  it('reads a pipe once with one job, and refuses it for several jobs before any starts', async () => {
    const argv = `plan ${small} --slo-ttft 300ms --rate 12`.split(' ');
    const pipe = (read: Set<string>, deps: CliDeps): CliDeps => ({
      ...deps,
      plainFileId: async () => null,
      async readTextFile(file) {
        if (read.has(file)) return '';
        read.add(file);
        return deps.readTextFile(file);
      },
    });
    const [one, two] = [fakeWorld({}, FILES), fakeWorld({}, FILES)];
    expect(await main([...argv, '--jobs', '1'], pipe(new Set(), one.deps))).toBe(0);
    expect(await main([...argv, '--jobs', '2'], pipe(new Set(), two.deps))).toBe(2);
    expect(two.err()).toContain('w.json is not a regular file, and each thread reads it: give --jobs 1');
  });

  it('tries several store sizes, and puts the chosen one into its commands', async () => {
    // Conversations of several turns: P computes what it does not find, and keeps nothing itself.
    const turns = JSON.stringify(
      generator({ conversations: 10, turns: 5, prefix: 0, input: 200, output: 5 }),
    );
    const stored = JSON.stringify({ ...JSON.parse(costs), store: { load: { fixed_ms: 1 }, save: {} } });
    const argv =
      'plan w.json --costs ./stored.json --sample 40 --routing round-robin --mode unidirectional --block-size 16 --no-prefix-caching';
    const { code, world } = await kvferry(
      `${argv} --store none,256KiB,64MiB --slo-ttft 400ms --rate 3 --json out.json --html page.html`,
      { 'w.json': turns, './stored.json': stored },
    );
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const { searched, chosen, commands, front, notes } = parsed(world.files.get('out.json'));
    expect(searched.store).toEqual([null, 2 ** 18, 2 ** 26]);
    expect(front.map(({ store_bytes }) => store_bytes)).toContain(2 ** 26);
    expect(chosen!.store_bytes).toBe(2 ** 26);
    expect(commands[0]).toContain('--store 67108864 --store-eviction s3fifo');
    // Both the simulation and the benchmark on engines.
    for (const line of commands.slice(0, 2)) expect(line).toContain(' --no-prefix-caching');
    for (const shown of [world.out(), world.files.get('page.html')!])
      expect(shown).toMatch(/a\s+store\s+of\s+none,\s+256 KiB,\s+64 MiB/);
    expect(notes).toEqual([]);
  });

  it('plans with a folder below the store, names it in a note and the commands, and writes nothing there', async () => {
    const turns = JSON.stringify(
      generator({ conversations: 10, turns: 5, prefix: 0, input: 200, output: 5 }),
    );
    const store = { load: {}, save: {}, folder: { read: { fixed_ms: 1 } } };
    const argv =
      'plan w.json --costs ./stored.json --sample 40 --routing round-robin --mode unidirectional --block-size 16 --no-prefix-caching --store none,4MiB --slo-ttft 400ms --rate 3 --json out.json';
    const files = { 'w.json': turns, './stored.json': JSON.stringify({ ...JSON.parse(costs), store }) };
    const below = await kvferry(`${argv} --store-dir kv --store-dir-size 64MiB`, files);
    expect([below.code, below.world.err().includes('kvferry:')]).toEqual([0, false]);
    const report = parsed(below.world.files.get('out.json'));
    expect(report.chosen!.store_bytes).toBe(2 ** 22);
    expect(report.searched.store).toEqual([null, 2 ** 22]);
    expect(report.notes).toEqual(['Below each store lies a folder, empty at the beginning.']);
    for (const line of report.commands.slice(0, 2))
      expect(line).toContain(' --store-dir kv --store-dir-size 67108864');
    // Nothing is written there.
    expect([...below.world.files.keys()].filter((path) => path.startsWith('kv'))).toEqual([]);
  });

  it('gives no command for engines here, and says so, if conversations are longer than their context', async () => {
    const { world } = await kvferry(
      `plan --costs ./mine.json --sample 40 --routing round-robin --threshold 64 --mode bidirectional --slo-ttft 90s --rate 1 --model tiny --json out.json`,
    );
    const { commands, notes } = parsed(world.files.get('out.json'));
    expect(commands.map((line) => line.split(' ')[1])).toEqual(['simulate', 'export']);
    expect(notes.join()).toMatch(/the longest conversation has \S+ tokens, and tiny goes up to 8,192/);
  });

  it('writes a fleet file that simulate and export accept unchanged', async () => {
    const { world } = await kvferry(
      `plan ${small} --placement replica,pooled --slo-ttft 300ms --rate 20 --d-blocks 3000 --json out.json --fleet-out fleet.json`,
    );
    const text = world.files.get('fleet.json')!;
    const report = parsed(world.files.get('out.json'));
    expect(fleetFileSchema.parse(JSON.parse(text)).rolesets).toHaveLength(report.chosen!.rolesets);
    const files = { ...FILES, 'fleet.json': text };

    // The printed command simulates the planned fleet from the file.
    const [simulate, bench] = report.commands;
    expect(bench).toContain(' --block-size 128 --d-blocks 3000');
    expect(bench).not.toContain('--p-blocks');
    const again = await kvferry(`${simulate!.replace(/^kvferry /, '')} --json sim.json`, files);
    expect([again.code, again.world.err().includes('kvferry:')]).toEqual([0, false]);
    const [arm] = simulationReportSchema.parse(JSON.parse(again.world.files.get('sim.json')!)).arms;
    expect(arm!.requests).toBeGreaterThanOrEqual(report.chosen!.sample);
    expect(arm!.goodput!.share).toBeGreaterThanOrEqual(0.9);
    expect(arm!.ttft_ms!.p50).toBeCloseTo(report.chosen!.ttft_ms!.p50, -2);

    // The report is not a fleet file, and the error says what is.
    const whole = await kvferry('export llm-d --fleet plan.json', {
      'plan.json': world.files.get('out.json')!,
    });
    expect(whole.code).toBe(2);
    expect(whole.world.err()).toContain('plan.json is a report of kvferry plan: --fleet takes the file that');
    expect(whole.world.err()).toContain('--fleet-out FILE');

    for (const target of ['aibrix', 'llm-d', 'dynamo']) {
      const exported = await kvferry(
        `export ${target} --model qwen2.5-0.5b --fleet fleet.json --routing round-robin`,
        files,
      );
      expect([exported.code, exported.world.err()]).toEqual([0, '']);
      const documents = parseAllDocuments(exported.world.out());
      expect(documents.length).toBeGreaterThan(0);
      for (const document of documents) {
        const json = document.toJS();
        const check = schemas[(json.kind ?? 'values') as keyof typeof schemas];
        check(json);
        expect(check.errors ?? []).toEqual([]);
      }
    }
    for (const target of ['sglang', 'vllm']) {
      const exported = await kvferry(`export ${target} --model qwen2.5-0.5b --fleet fleet.json`, files);
      expect([exported.code, exported.world.err()]).toEqual([0, '']);
    }
  });

  it('finds the highest rate for a number of engines, and lists the rates that it tried', async () => {
    const { code, world } = await kvferry(
      `plan ${small} --engines 3 --slo-ttft 300ms --json out.json --html page.html`,
    );
    expect([code, world.err().includes('kvferry:')]).toEqual([0, false]);
    const { goodput, chosen, front } = parsed(world.files.get('out.json'));
    expect(chosen).toMatchObject({ engines: 3, prefill: 2, decode: 1 });
    // Two P at 100 ms a turn serve 20 a second, and a little more in so short a sample.
    expect(goodput!.requests_per_second).toBeLessThan(24);
    expect(goodput!.requests_per_second).toBeGreaterThan(8);
    expect(goodput!.not_at!).toBeGreaterThan(goodput!.requests_per_second);
    const rates = goodput!.tried.map((one) => one.requests_per_second);
    expect(rates).toEqual(rates.toSorted((a, b) => a - b));
    expect(front.map(({ engines }) => engines)).toEqual([2, 3]);
    expect(world.out()).toMatch(/requests per second with 2 P \+ 1 D/);
    const page = world.files.get('page.html')!.replaceAll(/\s+/g, ' ');
    expect(page).toContain('Requests that meet the SLO, by rate');
    const lengths = `2 P + 1 D: simulated with ${chosen!.sample} requests; the others with 100, so their figures are less certain.`;
    expect(page).toContain(lengths);
    expect(world.out().replaceAll(/\s+/g, ' ')).toContain(lengths);
  });

  it('plans for a trace at its own rate or another, and says which part of it was simulated', async () => {
    const argv =
      'plan --trace t.jsonl --costs ./mine.json --slo-ttft 1200ms --routing round-robin --json out.json';
    const own = await kvferry(`${argv} --sample 70`);
    expect(own.code).toBe(0);
    const report = parsed(own.world.files.get('out.json'));
    expect(report.workload).toMatchObject({ source: 't.jsonl', requests: 140, sample: 70 });
    expect(report.workload.own_rate).toBeCloseTo(140 / 8.34, 3);
    // The check has eight times as many requests, or all there are.
    expect([report.chosen!.sample, report.notes]).toEqual([140, []]);
    // At 512 ms each and 16.8 a second 8.6 P are busy; a sample of four seconds gets by with slightly fewer.
    expect(report.chosen!.prefill).toBeGreaterThanOrEqual(8);
    const slow = await kvferry(`${argv} --sample 15 --rate 5 --config c.json`, {
      ...FILES,
      'c.json': '{"seeds":4}',
    });
    const { seeds, chosen: found, notes, commands } = parsed(slow.world.files.get('out.json'));
    const slower = found!;
    expect(slower.sample).toBe(8 * 15);
    expect(notes).toEqual([
      expect.stringContaining(
        `the first ${slower.with_warm_up} requests of 140 in the trace. The last ${slower.counted} of them count`,
      ),
    ]);
    // Both the simulation and the replay on engines.
    for (const line of commands.slice(0, 2))
      expect(line).toContain(`t.jsonl --limit ${slower.with_warm_up} --speed-up 0.297`);
    // Serving the same requests again is not another draw.
    expect(seeds).toBe(1);
    expect(slower.requests_per_second).toBe(5);
    expect(slower.prefill).toBeLessThan(report.chosen!.prefill);
    expect(slower.prefill).toBeGreaterThanOrEqual(3);
  });

  it('names the closest fleet if nothing meets the SLO, and says that more engines do not help', async () => {
    const { code, world } = await kvferry(
      `plan ${small} --slo-ttft 40ms --rate 20 --max-engines 12 --json out.json --fleet-out fleet.json`,
    );
    expect(code).toBe(1);
    const report = parsed(world.files.get('out.json'));
    expect(report.chosen).toBeNull();
    expect(report.idle!.met).toBe(false);
    expect(world.out().replaceAll('\n', ' ')).toMatch(
      /No fleet that was tried meets TTFT 40 ms.*Closest: .*More engines do not help/,
    );
    expect(world.files.has('fleet.json')).toBe(false);
  });

  it('says if a number of engines meets the SLO at no rate, and that more engines do not help', async () => {
    const { code, world } = await kvferry(`plan ${small} --slo-ttft 10ms --engines 3 --json out.json`);
    expect(code).toBe(1);
    expect(parsed(world.files.get('out.json')).idle!.met).toBe(false);
    expect(world.out().replaceAll('\n', ' ')).toMatch(
      /meets TTFT 10 ms for 90% of requests \(3 engines\)\..*More engines do not help/,
    );
  });

  it('says so if the load is unstable', async () => {
    const { code, world } = await kvferry(
      `plan ${small.replace('--sample 100', '--sample 400')} --slo-ttft 300ms --rate 200 --max-engines 4`,
    );
    expect(code).toBe(1);
    expect(world.out().replaceAll('\n', ' ')).toContain(
      'OVERLOADED: requests arrive far faster than they are served',
    );
  });

  it.each([
    [`${small} --rate 5`, 'no SLO is given'],
    [`${small} --slo-ttft 1s`, 'neither --rate nor --engines is given'],
    [`${small} --slo-ttft 1s --rate 5 --engines 4`, '--rate is 5 and --engines is 4'],
    [`${small} --slo-ttft 1s --engines 40 --max-engines 20`, '--engines is 40 and --max-engines is 20'],
    [`${small} --slo-ttft 1s --engines 1`, 'wanted a whole number of engines from 2 to 128'],
    [`${small} --slo-ttft 1s --rate 0`, 'wanted requests per second, above 0'],
    [`${small} --slo-ttft 1s --rate 5 --attainment 0%`, 'wanted a share of requests above 0% and up to 100%'],
    [
      `${small} --slo-ttft 1s --rate 5 --attainment 101%`,
      'wanted a share of requests above 0% and up to 100%',
    ],
    [
      `${small} --slo-ttft 1s --rate 5 --attainment much`,
      'wanted a share of requests above 0% and up to 100%',
    ],
    [`${small} --slo-ttft 1s --rate 5 --placement pool`, 'did you mean pooled?'],
    [`${small} --slo-ttft 1s --rate 5 --trace t.jsonl`, '--trace and another workload are both given'],
    [`${small} --slo-ttft 1s --rate 5 --preset pr32553`, 'a file and --preset are both given'],
    [`${small} --slo-ttft 1s --rate 5 --budget 1m`, '--budget has no effect in a plan'],
    [
      `${small} --slo-ttft 1s --rate 5 --experiments prefix-caching,eviction`,
      '--experiments has no effect in a plan',
    ],
    [`${small} --slo-ttft 1s --rate 5 --num-clients 4`, '--num-clients has no effect in a plan'],
    [`${small} --slo-ttft 1s --rate 5 --max-turns 2`, '--max-turns has no effect in a plan'],
    [`${small} --slo-ttft 1s --rate 5 --adapter gpu`, '--adapter has no effect in a plan'],
    [`${small} --slo-ttft 1s --rate 5 --limit 9`, '--limit has no effect without a trace'],
    [`${small} --slo-ttft 1s --rate 5 --store none --store-place remote`, 'without a store'],
    [
      `${small} --slo-ttft 1s --rate 5 --store none --store-dir kv`,
      '--store-dir has no effect without a store',
    ],
    ['--trace t.jsonl --slo-ttft 1s --scale 1/4', '--scale has no effect with --trace'],
    ['--trace t.jsonl --slo-ttft 1s --seeds 4', '--seeds has no effect in a plan with --trace'],
    [`${small} --slo-ttft 1s --rate 5 --fleet-out /read-only/f.json`, 'cannot write /read-only/f.json'],
    ['w.json --slo-ttft 1s --rate 5 --costs mocker', "there is no cost model 'mocker'"],
    [`${small} --slo-ttft 1s --rate 5 --p-blocks 2`, 'the longest conversation needs'],
    [`${small} --slo-ttft 1s --rate 5 --prefill 2`, '--prefill is an option of'],
    ['--trace at-once.jsonl --slo-ttft 1s', 'all requests of at-once.jsonl arrive at the same time'],
  ])('refuses %s and says what is wrong', async (argv, message) => {
    const files = { ...FILES, 'at-once.jsonl': row(0) + row(0) };
    const { code, world } = await kvferry(`plan ${argv}`, files);
    expect([code, world.err().includes(message) ? message : world.err()]).toEqual([2, message]);
  });
});
