import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import type { CliDeps } from '../../src/cli/deps.ts';
import { FAULTS, type FaultKind } from '../../src/faults/schedule.ts';
import { formatMs, formatPercent } from '../../src/measure/format.ts';
import type { BenchReport } from '../../src/measure/schemas/bench-report.ts';
import {
  type SimulationReport,
  simulationReportSchema,
} from '../../src/measure/schemas/simulation-report.ts';
import { generator } from '../workload/generator.ts';
import { fakeWorld, widest } from './fake.ts';

const simulate = async (argv: string, files: Record<string, string> = {}) => {
  const world = fakeWorld({}, files);
  const code = await main(['simulate', ...argv.split(' ').filter(Boolean)], world.deps);
  return { code, world };
};

const small = JSON.stringify(
  generator({ conversations: 12, turns: [4, 8], prefix: 200, input: [20, 60], output: [10, 30] }),
);

const mine = JSON.stringify({
  kvferry_simulation_costs: 1,
  name: 'mine',
  source: 'assumed',
  step: { fixed_ms: 5, ms_per_prefill_token: 1, ms_per_decode: 1 },
  read: { fixed_ms: 2 },
});

const reportOf = (kind: string) => JSON.stringify({ kvferry: '1', kind, schema_version: 1 });

const parsed = (text: string | undefined): SimulationReport =>
  simulationReportSchema.parse(JSON.parse(text!));

describe('kvferry simulate', () => {
  it.each(['simulate --arrival-rate 5 --arrivals 1000', 'plan --rate 5 --slo-ttft 1s --sample 20000'])(
    'stops generating a large workload on Ctrl-C: %s',
    async (argv) => {
      const world = fakeWorld();
      let turns = 0;
      const nextTask = async (): Promise<void> => {
        turns++;
        world.interrupt();
      };
      expect(await main(argv.split(' '), { ...world.deps, nextTask })).toBe(130);
      expect(turns).toBe(1);
    },
  );

  it('names modelled links and a streamed handover, and only where there are any', async () => {
    const fleet = { rolesets: [{ node: 'a', prefill: 1, decode: 2 }], sameNode: '10e6,1ms' };
    const files = { 'w.json': small, 'fleet.json': JSON.stringify(fleet) };
    const argv = 'w.json --mode bidirectional --json out.json --markdown out.md';
    const places = '10e6,1ms within a node';
    const { world } = await simulate(`${argv} --fleet fleet.json --handover streamed`, files);
    for (const text of [world.out(), world.files.get('out.md')!]) {
      expect(text.replaceAll('\n', ' ')).toContain(`Modelled links: ${places}.`);
      expect(text).toContain("streamed handover (kvferry's own)");
    }
    expect(parsed(world.files.get('out.json'))).toMatchObject({ links: places, handover: 'streamed' });
    const { world: plain } = await simulate(argv, files);
    expect(plain.out()).not.toMatch(/Modelled links|streamed/);
    expect(parsed(plain.files.get('out.json'))).not.toHaveProperty('links');
  });

  it("takes a prompt in the steps of the engines that published times come from: Dynamo's mocker has 8192 rows", async () => {
    const one = generator({ conversations: 1, turns: 2, prefix: 0, input: 6000, output: 2 });
    const ttftOf = async (argv: string) => {
      const files = { 'w.json': JSON.stringify(one) };
      const { world } = await simulate(`w.json --mode monolithic --json out.json ${argv}`, files);
      return parsed(world.files.get('out.json')).arms[0]!.ttft_ms!.mean;
    };
    const stepMs = (rows: number) => 4.209989e-7 * rows * rows + 1.518344e-2 * rows + 16.50142;
    expect(await ttftOf('')).toBeCloseTo(stepMs(6000), 9);
    const several = 2 * stepMs(2048) + stepMs(6000 - 2 * 2048);
    expect(await ttftOf('--max-num-batched-tokens 2048')).toBeCloseTo(several, 9);
  });

  it('serves every mode, names its cost model, and writes the same bytes for the same seed', async () => {
    const argv =
      'w.json --num-clients 3 --costs ./mine.json --threshold 8 --json out.json --html page.html --slo-ttft 300ms';
    const files = { 'w.json': small, './mine.json': mine };
    const { code, world } = await simulate(argv, files);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const report = parsed(world.files.get('out.json'));
    expect(report.costs).toEqual({ name: 'mine', source: 'assumed', about: '' });
    expect(report.starts).toEqual({ ms: 240_000, assumed: true });
    expect(report.arms.map(({ label }) => label)).toEqual([
      'unidirectional',
      'bidirectional',
      'decode-local',
    ]);
    for (const arm of report.arms) {
      expect(arm).toMatchObject({ requests: report.workload.turns, failed_requests: 0 });
      expect(arm.local_hit_tokens + arm.pulled_tokens + arm.computed_tokens).toBe(arm.prompt_tokens);
      expect(arm.verdict.word).toBe('STABLE');
    }
    expect(report.arms[0]!.pulled_tokens).toBe(0);
    expect(report.arms[1]!.pulled_tokens).toBeGreaterThan(0);
    expect(world.out()).toContain('Cost model (assumed): mine');
    expect(world.out()).toContain('good: requests with a TTFT of at most 300 ms.');
    expect(report.workload.closed_loop).toBe(true);
    expect(world.out()).toContain('unidirectional: Clients wait for their answers');
    expect(world.out()).not.toContain('STABLE');
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    expect(world.files.get('page.html')).toContain('Load over time'.toLowerCase());
    expect(world.files.get('page.html')).toContain('timeline of one request');
    expect(world.files.get('page.html')).toContain('in bidirectional, the one that pulled the most');
    expect(world.files.get('page.html')).toContain('in unidirectional, the last one, because none pulled');
    const again = await simulate(argv, files);
    expect(again.world.files.get('out.json')).toBe(world.files.get('out.json'));
    const other = await simulate(`${argv} --seed 5`, files);
    expect(other.world.files.get('out.json')).not.toBe(world.files.get('out.json'));
  });

  it('limits steps to the tokens per step of the cost model, unless another limit is given', async () => {
    const stepsOf = async (more: string, costs: object, argv = 'w.json --mode unidirectional') => {
      const { code, world } = await simulate(`${argv} --costs ./c.json --json out.json${more}`, {
        'w.json': small,
        './c.json': JSON.stringify({ ...JSON.parse(mine), ...costs }),
        't.jsonl': '{"timestamp": 0, "input_length": 1500, "output_length": 4, "hash_ids": [1, 2, 3]}\n',
      });
      expect(code).toBe(0);
      return parsed(world.files.get('out.json')).arms[0]!.engines[0]!.steps;
    };
    const short = { max_num_batched_tokens: 32 };
    expect(await stepsOf('', short)).toBeGreaterThan(2 * (await stepsOf('', {})));
    expect(await stepsOf(' --max-num-batched-tokens 2048', short)).toBe(await stepsOf('', {}));
    const trace = '--trace t.jsonl --mode unidirectional --max-num-seqs 32';
    expect(await stepsOf('', { max_num_batched_tokens: 100 }, trace)).toBe(15);
  });

  it('distinguishes a fleet that keeps up from one that does not', async () => {
    const argv =
      'w.json --mode bidirectional --costs ./mine.json --arrivals 200 --think-time 10ms --json out.json';
    const verdict = async (rate: number) => {
      const { world } = await simulate(`${argv} --arrival-rate ${rate}`, {
        'w.json': small,
        './mine.json': mine,
      });
      const { arms, workload } = parsed(world.files.get('out.json'));
      const { word } = arms[0]!.verdict;
      expect(workload.closed_loop).toBe(false);
      expect(world.out()).toContain(`${word}: `);
      return word;
    };
    expect(await verdict(0.5)).toBe('STABLE');
    expect(await verdict(10)).toBe('OVERLOADED');
  });

  it('compares policies over several seeds', async () => {
    const { world } = await simulate(
      'w.json --prefill 2 --decode 2 --routing round-robin,prefix-cache --arrival-rate 4 --arrivals 12 --seeds 2 --check --p-blocks 400 --d-blocks 400 --json out.json --html page.html',
      { 'w.json': small },
    );
    const { arms, costs } = parsed(world.files.get('out.json'));
    expect(costs.source).toBe('published');
    expect(arms.map(({ routing, seeds }) => [routing, seeds])).toEqual([
      ['round-robin', 2],
      ['prefix-cache', 2],
    ]);
    expect(arms[1]!.by_seed).toHaveLength(2);
    const requests = arms[1]!.by_seed.map((seed) => seed.requests);
    expect(requests[0]! + requests[1]!).toBe(arms[1]!.requests);
    const ttfts = arms[1]!.by_seed.map(({ ttft_ms }) => ttft_ms!.mean).toSorted((a, b) => a - b);
    // Both ends of each figure are in the table, and each seed on the page.
    expect(world.out()).toContain('range of 2 seeds');
    expect(world.out()).toContain(ttfts.map(formatMs).join('-'));
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    const page = world.files.get('page.html')!;
    for (const ms of ttfts) expect(page).toContain(`<td>${formatMs(ms)}</td>`);
    expect(world.out()).toContain('engines of seed 0, the first of 2');
    expect(page).toContain('Seed 0, the first of 2.');
    expect(arms[1]!.local_hit_tokens).toBeGreaterThan(arms[0]!.local_hit_tokens);
  });

  it('adds up counts over all seeds, and says so if seeds make no difference', async () => {
    const preempted = async (seeds: string) => {
      const argv =
        'w.json --mode unidirectional --costs ./mine.json --arrival-rate 20 --p-blocks 60 --d-blocks 40 --no-prefix-caching --json out.json';
      const { world } = await simulate(`${argv} ${seeds}`, { 'w.json': small, './mine.json': mine });
      const { preemptions } = parsed(world.files.get('out.json')).arms[0]!;
      expect(world.out()).toMatch(new RegExp(` ${preemptions}\n`));
      return preemptions;
    };
    const each = [await preempted('--seed 4'), await preempted('--seed 5')];
    expect(Math.min(...each)).toBeGreaterThan(0);
    expect(await preempted('--seed 4 --seeds 2')).toBe(each[0]! + each[1]!);

    const argv = 'w.json --num-clients 2 --mode unidirectional --seeds 2 --html page.html';
    const { world } = await simulate(argv, { 'w.json': small });
    for (const text of [world.out(), world.files.get('page.html')!])
      expect(text.replaceAll('\n', ' ')).toContain('All seeds gave the same result');
    expect(world.out()).not.toContain('least and most');
  });

  it('reports one active conversation in the singular', async () => {
    const argv = 'w.json --mode unidirectional --max-active-conversations 1';
    const { world } = await simulate(argv, { 'w.json': small });
    expect(world.out().replaceAll('\n', ' ')).toContain('1 client, 1 conversation active');
  });

  it('shows both P and D, however many engines there are', async () => {
    const { world } = await simulate(
      'w.json --prefill 12 --decode 12 --mode bidirectional --num-clients 6 --json out.json --html page.html',
      { 'w.json': small },
    );
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    const [table] = world.out().split('busy, 0 to').slice(1);
    for (const id of ['prefill-', 'decode-']) expect(table!.split(`\n${id}`)).toHaveLength(9);
    const page = world.files.get('page.html')!;
    for (const role of ['prefill', 'decode']) expect(page).toContain(`${role}, median of 12`);
  });

  it('reports the engines that joined a fleet as its load grew, and the engine hours', async () => {
    const argv =
      'w.json --mode bidirectional --costs ./mine.json --arrival-rate 4 --arrivals 60 --autoscale k8s-hpa --max-prefill 3 --start-up 2s --drain drop --json out.json';
    const parameters = JSON.stringify({ prefill: { metric: 'in-flight', target: 2 } });
    const files = { 'w.json': small, './mine.json': mine, 'hpa.json': parameters };
    const { code, world } = await simulate(`${argv} --autoscale-config hpa.json`, files);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const { arms, starts } = parsed(world.files.get('out.json'));
    expect(starts).toEqual({ ms: 2000, assumed: false });
    const { scaling, engines, engine_hours } = arms[0]!;
    expect(scaling).toMatchObject({ joined: 2, died: 0 });
    expect(engines.map(({ engine_id, serves_ms }) => [engine_id, serves_ms > 0])).toEqual([
      ['prefill-0', false],
      ['decode-0', false],
      ['prefill-1', true],
      ['prefill-2', true],
    ]);
    const served = engines.reduce((sum, { serves_ms }) => sum + arms[0]!.simulated_ms - serves_ms, 0);
    expect(engine_hours * 3_600_000).toBeGreaterThanOrEqual(served);
    expect(world.out()).toMatch(/decided k8s-hpa: prefill 1 to 3 \(in flight: /);
    expect(world.out()).toContain('takes 2.00 s.');
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    const says = async (more: string) => {
      const seeds = await simulate(`${argv} --autoscale-config hpa.json --html page.html${more}`, files);
      return seeds.world.files.get('page.html')!.replaceAll(/\s+/g, ' ').includes(said);
    };
    const said = 'The chart and the events are of seed 0, the first of 2; the figures are of all 2.';
    expect([await says(' --seeds 2'), await says('')]).toEqual([true, false]);
  });

  it('says why a fleet did not change, on the page too', async () => {
    const argv =
      'w.json --mode bidirectional --costs ./mine.json --arrival-rate 1 --autoscale k8s-hpa --start-up 2s --json out.json --html page.html';
    const stays = async (arrivals: number) => {
      const files = { 'w.json': small, './mine.json': mine };
      const { code, world } = await simulate(`${argv} --arrivals ${arrivals}`, files);
      expect(code).toBe(0);
      const { events, stayed, decisions } = parsed(world.files.get('out.json')).arms[0]!.scaling!;
      expect(events).toEqual([]);
      expect(world.out().replaceAll('\n', ' ')).toContain(`Nothing changed: ${stayed}.`);
      const page = world.files.get('page.html')!;
      expect(page).toContain(`Nothing changed: ${stayed}.`);
      expect(page).not.toContain('<span>What happened</span>');
      return { stayed, decisions };
    };
    const shortly = 'k8s-hpa first decides after 15 s, and the run ended before that';
    expect(await stays(2)).toEqual({ stayed: shortly, decisions: 0 });
    const { stayed, decisions } = await stays(40);
    expect(stayed).toMatch(/^k8s-hpa: prefill stays 1 \(/);
    expect(decisions).toBeGreaterThan(0);
  });

  it('says why an autoscaler changed nothing even if engines died and were replaced', async () => {
    const argv =
      'w.json --mode bidirectional --decode 2 --costs ./mine.json --arrival-rate 3 --arrivals 8 --autoscale k8s-hpa --faults 20 --start-up 1s --json out.json --html page.html';
    const { world } = await simulate(argv, { 'w.json': small, './mine.json': mine });
    const { events, stayed } = parsed(world.files.get('out.json')).arms[0]!.scaling!;
    expect(new Set(events.map(({ event }) => event))).toEqual(new Set(['died']));
    const why = `The autoscaler changed nothing: ${stayed}.`;
    for (const shown of [world.out().replaceAll('\n', ' '), world.files.get('page.html')!])
      expect(shown).toContain(why);
  });

  it('injects faults by a schedule, replaces engines that died, and serves the rest', async () => {
    const argv =
      'w.json --mode bidirectional --prefill 2 --decode 2 --costs ./mine.json --arrival-rate 3 --arrivals 40 --p-blocks 400 --d-blocks 400 --faults 45 --start-up 1s --check --slo-ttft 300ms --json out.json --html page.html --seed 6';
    const files = { 'w.json': small, './mine.json': mine };
    const { code, world } = await simulate(argv, files);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const [arm] = parsed(world.files.get('out.json')).arms;
    const { faults, scaling, requests, failed_requests, errors } = arm!;
    expect(Object.keys(faults!).length).toBeGreaterThan(8);
    // A message fault hits a single message, whichever engine it is for.
    expect(Object.values(faults!).reduce((sum, n) => sum + n, 0)).toBeLessThanOrEqual(45);
    expect(scaling!.died).toBeGreaterThan(0);
    expect(scaling!.left).toBe(faults!['scale-down']);
    expect(scaling!.events.filter(({ event }) => event === 'died')).toHaveLength(scaling!.died);
    expect(requests).toBeGreaterThan(50);
    // Turns whose client left, and later ones of the same conversations; other turns took another way.
    expect(errors.map(({ message }) => message)).toContain('the client left');
    expect(failed_requests).toBe(errors.reduce((sum, { count }) => sum + count, 0));
    // The replacement of an engine that died as the last turn ended may still be starting.
    expect(scaling!.died - scaling!.replaced).toBeLessThanOrEqual(1);
    const happened = Object.values(faults!).reduce((sum, n) => sum + n, 0);
    const text = world.out().replaceAll('\n', ' ');
    expect(text).toContain(`${happened} of 45 faults happened: `);
    const unasked = parsed(world.files.get('out.json')).workload.turns - requests - failed_requests;
    expect(unasked).toBeGreaterThan(0);
    for (const shown of [text, world.files.get('page.html')!])
      expect(shown).toMatch(new RegExp(`\\b${unasked} turns? not sent`));
    const page = world.files.get('page.html')!;
    for (const kind of Object.keys(faults!)) expect(page).toContain(`>${FAULTS[kind as FaultKind]}</th>`);
    for (const { message } of errors) expect(page).toContain(`>${message}</td>`);
    expect(page).toContain('meet the SLO');
    expect(page).toContain(`>${formatPercent(arm!.goodput!.share)}</td>`);
    const other = await simulate(argv.replace('--check ', '').replace('--seed 6', '--seed 9'), files);
    expect(parsed(other.world.files.get('out.json')).arms[0]!.faults).not.toEqual(faults);
  });

  it('drains the engines that faults scale down as --drain says', async () => {
    const argv =
      'w.json --mode bidirectional --prefill 2 --decode 2 --costs ./mine.json --arrival-rate 3 --arrivals 40 --think-time 3s --faults 150 --start-up 100ms --seed 1 --json out.json --drain ';
    const drained = async (drain: string) => {
      const { world } = await simulate(argv + drain, { 'w.json': small, './mine.json': mine });
      expect(world.err()).not.toContain('kvferry:');
      const { events, migrated_tokens } = parsed(world.files.get('out.json')).arms[0]!.scaling!;
      const lost = events.some(({ event, detail }) => event === 'left' && !detail.endsWith(' 0 lost'));
      return { migrated: migrated_tokens > 0, lost };
    };
    expect(await drained('migrate')).toEqual({ migrated: true, lost: false });
    expect(await drained('drop')).toEqual({ migrated: false, lost: true });
  });

  it('writes a trace of what happened, which changes nothing else', async () => {
    const argv =
      'w.json --mode bidirectional --num-clients 3 --costs ./odd.json --threshold 8 --json out.json';
    // With these times nothing happens at the same moment by chance.
    const step = { fixed_ms: 5.137, ms_per_prefill_token: 1.0513, ms_per_decode: 0.917 };
    const odd = JSON.stringify({ ...JSON.parse(mine), step, submit_ms: 0.31, read: { fixed_ms: 2.013 } });
    const files = { 'w.json': small, './odd.json': odd };
    const { code, world } = await simulate(`${argv} --trace-out trace.json`, files);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const { traceEvents } = JSON.parse(world.files.get('trace.json')!) as {
      traceEvents: { ph: string; name: string; cat?: string; ts: number; dur?: number }[];
    };
    const spans = traceEvents.filter(({ ph }) => ph === 'X');
    const of = (name: string) => spans.filter((span) => span.name === name);
    const { arms, workload } = parsed(world.files.get('out.json'));
    expect(of('turn')).toHaveLength(workload.turns);
    expect(of('forward')).toHaveLength(arms[0]!.engines.reduce((sum, { steps }) => sum + steps, 0));
    expect(of('transfer').length).toBeGreaterThan(workload.turns);
    expect(spans.every(({ cat }) => cat === 'modelled')).toBe(true);
    expect(of('forward').every(({ dur }) => dur! > 6053)).toBe(true);
    const without = await simulate(argv, files);
    expect(without.world.files.get('out.json')).toBe(world.files.get('out.json'));
  });

  it('reports what a store held, saved and loaded, and the costs used for that', async () => {
    const argv =
      'w.json --num-clients 3 --mode bidirectional --threshold 8 --store 16MiB --experiments no-prefix-caching --json out.json --check';
    const timed = JSON.stringify({
      ...JSON.parse(mine),
      store: { load: { fixed_ms: 1 }, save: { fixed_ms: 1 } },
    });
    const files = { 'w.json': small, './mine.json': mine, './timed.json': timed };
    const { code, world } = await simulate(`${argv} --costs ./timed.json`, files);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const { arms, store_times } = parsed(world.files.get('out.json'));
    expect(store_times).toEqual({ assumed: false, tiers: [] });
    const store = arms[0]!.store!;
    expect(store.hits).toBeGreaterThan(0);
    expect(store.stored - store.evicted).toBe(store.blocks);
    expect(store.slots).toBe(Math.floor(2 ** 24 / store.block_bytes));
    expect(store.bytes_saved).toBe(store.stored * store.block_bytes);
    expect(store.load_ms).toBe(store.loads);
    // No block took two hops where one was enough; what the store did not have came from D.
    expect(store.two_hop_bytes).toBe(0);
    expect(arms[0]!.pulled_tokens).toBeGreaterThan(store.loaded_tokens / 2);
    expect(world.out()).toMatch(
      /Store: [^;]* evicted;\s+of\s+the\s+blocks\s+looked\s+up,\s+found\s+\d+%\s+of /,
    );
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    const seeds = await simulate(`${argv} --costs ./timed.json --seeds 2 --html page.html`, files);
    expect(seeds.world.files.get('page.html')!.replaceAll(/\s+/g, ' ')).toContain(
      'Blocks are those at the end of the first seed; other figures are totals of all 2.',
    );
    expect(seeds.world.out().replaceAll(/\s+/g, ' ')).toMatch(
      /blocks at the end of the first seed \([^)]*\); in all 2: \d+ evicted/,
    );
    const assumed = await simulate(
      `${argv.replace('--threshold 8 ', '')} --costs ./mine.json --pull-policy cost-aware`,
      files,
    );
    expect(assumed.code).toBe(0);
    expect(parsed(assumed.world.files.get('out.json')).store_times).toEqual({ assumed: true, tiers: [] });
    expect(assumed.world.out()).toContain('loads and saves are assumed to take');
    const tiered = await simulate(
      `${argv.replace('16MiB', '64KiB --store-dir nowhere --store-write EVICTED').replace(' --check', '')} --costs ./timed.json --html p.html`,
      files,
    );
    expect(tiered.world.err()).not.toContain('kvferry:');
    const below = parsed(tiered.world.files.get('out.json'));
    expect(below.store_times!.tiers).toMatchObject([
      { tier: 'folder', read: { fixed_ms: 0.1, source: 'assumed' }, write: { source: 'assumed' } },
    ]);
    const [memory, folder] = below.arms[0]!.store!.tiers;
    expect(folder!.hits).toBeGreaterThan(0);
    expect(memory!.hits + folder!.hits).toBe(below.arms[0]!.store!.hits);
    expect(folder!.written).toBeGreaterThanOrEqual(folder!.blocks);
    const said = tiered.world.out().replaceAll(/\s+/g, ' ');
    expect(said).toContain('a read takes 0.1 ms and 2 GB/s (assumed), a write 0.1 ms and 2 GB/s (assumed)');
    expect(said).toMatch(/found \d+% of [\d,]+ \([\d,]+ in memory, [\d,]+ in its folder\)/);
    expect(tiered.world.files.get('p.html')).toContain('>Tiers<');
    const without = await simulate(argv.replace('--store 16MiB ', ''), files);
    expect(parsed(without.world.files.get('out.json')).arms[0]!.store).toBeNull();
    // A block of two KV cache groups is read from a tier twice, and found once.
    const hybrid = `${argv.replace(' --check', '').replace('--store 16MiB', '--store 512KiB --store-dir nowhere --store-dir-size 768KiB --store-url redis://none')} --model tiny-hybrid`;
    const twoGroups = await simulate(hybrid, files);
    expect(twoGroups.world.err()).not.toContain('kvferry:');
    const { hits, tiers } = parsed(twoGroups.world.files.get('out.json')).arms[0]!.store!;
    expect(tiers.map(({ hits }) => hits > 0)).toEqual([true, true, true]);
    expect(tiers.reduce((sum, { hits }) => sum + hits, 0)).toBe(hits);
  });

  it('serves a trace in full: later turns wait for earlier ones and reuse their KV', async () => {
    const line = (timestamp: number, input: number, hash_ids: number[]) =>
      JSON.stringify({ timestamp, input_length: input, output_length: 40, hash_ids });
    const trace = [line(0, 1000, [1, 2]), line(100, 600, [5, 6]), line(9000, 1500, [1, 2, 3])].join('\n');
    const argv =
      '--trace t.jsonl --prefill 2 --decode 2 --block-size 128 --mode bidirectional --json out.json --check';
    const { code, world } = await simulate(argv, { 't.jsonl': trace });
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const { arms, workload } = parsed(world.files.get('out.json'));
    expect(workload).toMatchObject({ source: 't.jsonl', turns: 3 });
    expect(arms[0]).toMatchObject({ requests: 3, prompt_tokens: 3100, output_tokens: 120 });
    expect(arms[0]!.local_hit_tokens + arms[0]!.pulled_tokens).toBeGreaterThan(500);
    expect(arms[0]!.simulated_ms).toBeGreaterThan(9000);
  });

  it('with --no-prefix-caching keeps nothing on P, as in the experiment of that name', async () => {
    const argv = 'w.json --mode unidirectional --threshold 8 --json out.json';
    const named = await simulate(`${argv} --experiments no-prefix-caching`, { 'w.json': small });
    const [expected] = parsed(named.world.files.get('out.json')).arms;
    const { code, world } = await simulate(`${argv} --no-prefix-caching`, { 'w.json': small });
    const [arm] = parsed(world.files.get('out.json')).arms;
    expect(code).toBe(0);
    expect(arm).toEqual(expected);
    expect(arm!.local_hit_tokens).toBe(0);
    const kept = await simulate(argv, { 'w.json': small });
    expect(parsed(kept.world.files.get('out.json')).arms[0]!.local_hit_tokens).toBeGreaterThan(0);
  });

  it('predicts pulls for the KV cache groups of each variant: with costs by tokens, all pull alike', async () => {
    const argv =
      'w.json --costs llm-d-inference-sim --pull-policy cost-aware --mode bidirectional --experiments no-prefix-caching --num-clients 1 --max-num-requests 3 --json out.json';
    const pulled = async (model: string) => {
      const { code, world } = await simulate(`${argv} --model ${model}`, { 'w.json': small });
      expect(code).toBe(0);
      return parsed(world.files.get('out.json')).arms.map(({ pulled_tokens }) => pulled_tokens);
    };
    const [oneGroup] = await pulled('tiny');
    expect(oneGroup).toBeGreaterThan(0);
    expect(await pulled('tiny-hybrid')).toEqual([oneGroup, oneGroup]);
  });

  it("changes the size alone with --kv-bytes-per-token, and keeps the model's windows", async () => {
    const arms = async (more: string) => {
      const argv = `w.json --model tiny-hybrid --costs zero --mode bidirectional --max-num-requests 4 ${more}`;
      const { code, world } = await simulate(`${argv} --json out.json`, { 'w.json': small });
      expect(code).toBe(0);
      return parsed(world.files.get('out.json')).arms;
    };
    const asModel = await arms('');
    expect(asModel.map(({ label }) => label)).toEqual(['bidirectional', 'bidirectional, all KV kept']);
    expect(await arms('--kv-bytes-per-token 3072')).toEqual(asModel);
    const doubled = (await arms('--kv-bytes-per-token 6144')).map(({ bytes_p_to_d }) => bytes_p_to_d);
    expect(doubled).toEqual(asModel.map(({ bytes_p_to_d }) => 2 * bytes_p_to_d));
  });

  it.each([
    ['--num-clients 3 --max-num-requests 8', 6],
    ['--num-clients 3 --max-turns 2', 12],
    ['--num-clients 3 --warmup-step --max-num-requests 9', 9],
    ['--arrival-rate 5 --arrivals 30', null],
  ])('reports how many turns are asked for, in its progress too: %s', async (asking, turns) => {
    const argv = `w.json --mode unidirectional --costs zero --json out.json ${asking}`;
    const { world } = await simulate(argv, { 'w.json': small });
    const { arms, workload } = parsed(world.files.get('out.json'));
    expect(workload.turns).toBe(arms[0]!.requests);
    expect(workload.turns).toBe(turns ?? workload.turns);
    expect(world.err()).toContain(`unidirectional: ${workload.turns} to do`);
  });

  it('prints and keeps what was simulated if it is interrupted while it records spans', async () => {
    const world = fakeWorld({}, { 'w.json': small });
    world.interruptAt('span by span');
    const argv = 'simulate w.json --mode unidirectional --costs zero --json out.json --html page.html';
    expect(await main(argv.split(' '), world.deps)).toBe(130);
    expect(world.files.has('page.html')).toBe(false);
    const [arm] = parsed(world.files.get('out.json')).arms;
    expect(world.out()).toContain(`${arm!.requests} requests in`);
  });

  it('with --warmup-step does not count READs, loads and saves of first turns', async () => {
    const argv = 'w.json --num-clients 3 --warmup-step --mode unidirectional --json out.json';
    const armOf = async (more: string) =>
      parsed((await simulate(`${argv}${more}`, { 'w.json': small })).world.files.get('out.json')).arms[0]!;
    const plain = await armOf('');
    expect(plain.transfers.done).toBe(plain.requests);
    const through = ' --store 16MiB --kv-transfer-config {"kv_connector":"AIBrixPDReuseConnector"}';
    const { store, requests, transfers } = await armOf(`${through} --max-num-requests 3`);
    expect(requests).toBe(3);
    // D loads each prompt, and P what it does not have; the warm-up's twelve would come on top.
    expect(store!.loads).toBeGreaterThanOrEqual(3);
    expect(store!.loads).toBeLessThanOrEqual(6);
    expect(transfers.done).toBe(store!.loads);
    expect(store!.bytes_saved).toBeLessThan(store!.blocks * store!.block_bytes);
  });

  it('with --warmup-step counts neither steps nor link traffic of first turns', async () => {
    const argv =
      'w.json --costs ./mine.json --mode unidirectional --link 1gbe --num-clients 6 --warmup-step --json out.json';
    const { world } = await simulate(argv, { 'w.json': small, './mine.json': mine });
    const { engines, links, ...arm } = parsed(world.files.get('out.json')).arms[0]!;
    const [p] = engines;
    expect(p!.prefill_tokens).toBe(arm.computed_tokens);
    expect(p!.busy * arm.simulated_ms).toBeCloseTo(5 * p!.steps + p!.prefill_tokens);
    expect(links.map(({ bytes }) => bytes)).toEqual([arm.bytes_p_to_d]);
  });

  it('with --warmup-step serves first turns beforehand, and counts neither them nor their time', async () => {
    const armOf = async (more: string) => {
      const argv = `w.json --mode bidirectional --costs ./mine.json --json out.json${more}`;
      const { world } = await simulate(argv, { 'w.json': small, './mine.json': mine });
      return parsed(world.files.get('out.json')).arms[0]!;
    };
    const [all, later] = [await armOf(''), await armOf(' --warmup-step')];
    expect(later.requests).toBe(all.requests - 12);
    expect(later.ttft_ms!.count).toBe(later.requests);
    const endMs = later.engines[0]!.load.at(-1)!.end_ms;
    // One client sends one request after the other.
    expect(later.simulated_ms).toBeCloseTo(later.latency_ms!.mean * later.requests, 3);
    expect(later.simulated_ms).toBeLessThan(endMs - 12 * later.ttft_ms!.min);
    // Of two engines.
    expect(later.engine_hours * 3_600_000).toBeCloseTo(2 * later.simulated_ms, 3);
  });

  it('ends the started threads and names --jobs if the system cannot start as many', async () => {
    const world = fakeWorld({}, { 'w.json': small });
    let [running, started] = [0, 0];
    const startSimulationThread: CliDeps['startSimulationThread'] = () => {
      if (started === 2) throw new Error('EAGAIN');
      started++;
      running++;
      return { run: () => new Promise(() => {}), end: async () => void running-- };
    };
    const argv = 'simulate w.json --mode unidirectional --arrival-rate 2 --seeds 4 --jobs 4';
    expect(await main(argv.split(' '), { ...world.deps, startSimulationThread })).toBe(2);
    expect(world.err()).toContain('only 2 of 4 threads could be started (EAGAIN): give fewer --jobs');
    expect({ running, started }).toEqual({ running: 0, started: 2 });
  });

  it('starts no threads after Ctrl-C', async () => {
    const world = fakeWorld({}, { 'w.json': small });
    world.interruptAt('4 to do');
    let started = 0;
    const startSimulationThread: CliDeps['startSimulationThread'] = () => {
      started++;
      return { run: () => new Promise(() => {}), end: async () => {} };
    };
    const argv = 'simulate w.json --mode unidirectional --arrival-rate 2 --seeds 4 --jobs 4';
    expect(await main(argv.split(' '), { ...world.deps, startSimulationThread })).toBe(130);
    expect(started).toBe(0);
  });

  it('prints no rate if nothing takes time, on a page as in a terminal', async () => {
    const argv = 'w.json --mode unidirectional --costs zero --slo-ttft 300ms --markdown page.md';
    const { world } = await simulate(argv, { 'w.json': small });
    expect(world.out()).toMatch(/unidirectional +0\.00.* - +- +100%\n/);
    expect(world.files.get('page.md')).toMatch(/\*\*unidirectional\*\* .* \| - \| 100\.0% \| - \|/);
  });

  it('counts engines that do both separately, and shows the engines at the start from the start', async () => {
    const fleet = JSON.stringify({ rolesets: [{ prefill: 1, decode: 2, both: 1 }] });
    const argv =
      'w.json --mode unidirectional --fleet fleet.json --autoscale k8s-hpa --json out.json --html page.html';
    const { world } = await simulate(argv, { 'w.json': small, 'fleet.json': fleet });
    expect(world.out().replaceAll('\n', ' ')).toContain('1.00 P, 2.00 D and 1.00 that do both on average');
    const { mean_engines } = parsed(world.files.get('out.json')).arms[0]!.scaling!;
    expect(mean_engines).toEqual({ prefill: 1, decode: 2, both: 1 });
    const dots = [...world.files.get('page.html')!.matchAll(/<title>(prefill|decode|both) at 0: ([\d.]+)</g)];
    expect(new Set(dots.map(([, role, count]) => `${role} ${Number(count)}`))).toEqual(
      new Set(['prefill 1', 'decode 2', 'both 1']),
    );
  });

  it('prints the number of engines even if nothing takes time', async () => {
    const argv =
      'w.json --mode unidirectional --decode 2 --costs zero --autoscale k8s-hpa --seeds 2 --json out.json';
    const { world } = await simulate(argv, { 'w.json': small });
    expect(world.out()).toContain('1.00 P and 2.00 D on average');
  });

  it('counts the replacement of an engine that died even if starts take no time', async () => {
    const argv = 'w.json --mode bidirectional --decode 2 --costs zero --faults 20 --seed 1 --json out.json';
    const { world } = await simulate(argv, { 'w.json': small });
    const { scaling, engines } = parsed(world.files.get('out.json')).arms[0]!;
    expect(scaling!.died).toBeGreaterThan(0);
    expect(engines.slice(3).some(({ serves_ms }) => serves_ms === 0)).toBe(true);
    expect(scaling!.replaced).toBe(engines.length - 3);
  });

  it('says so if the report for --against has other prompts, even if as many', async () => {
    const spec = { conversations: 3, turns: 3, input: 20, output: 10 };
    const files = {
      'w.json': JSON.stringify(generator({ ...spec, prefix: 60 })),
      'longer.json': JSON.stringify(generator({ ...spec, prefix: 160 })),
    };
    const argv = '--mode unidirectional --num-clients 1 --experiments prefix-caching';
    const measured = fakeWorld({}, files);
    await main(['bench', 'w.json', ...argv.split(' '), '--rounds', '1', '--json', 'r.json'], measured.deps);
    const report = { ...files, 'r.json': measured.files.get('r.json')! };
    const told = async (workload: string) =>
      (await simulate(`${workload} ${argv} --against r.json`, report)).world.out().replaceAll(/\s+/g, ' ');
    expect(await told('w.json')).toContain('against unidirectional of r.json');
    expect(await told('w.json')).not.toContain('not the same');
    expect(await told('longer.json')).toContain('prompt tokens per round in the report,');
    expect(await told('longer.json')).toContain('in the simulation: not the same prompts.');
  });

  it('leaves out arms whose mode the report for --against does not have', async () => {
    const files = { 'w.json': small };
    const measured = fakeWorld({}, files);
    const bench = 'bench w.json --mode unidirectional --experiments prefix-caching --rounds 1 --json r.json';
    await main(bench.split(' '), measured.deps);
    const argv = 'w.json --mode unidirectional,bidirectional --against r.json --json out.json';
    const { world } = await simulate(argv, { ...files, 'r.json': measured.files.get('r.json')! });
    const { arms } = parsed(world.files.get('out.json')).against!;
    expect(arms.map(({ label }) => label)).toEqual(['unidirectional']);
  });

  it('compares one seed with one round if the report for --against has several rounds', async () => {
    const files = { 'w.json': small };
    const argv = '--mode bidirectional --threshold 8 --experiments prefix-caching';
    const compared = async (rounds: number, seeds: number) => {
      const measured = fakeWorld({}, files);
      const bench = ['bench', 'w.json', ...argv.split(' '), '--rounds', String(rounds), '--json', 'r.json'];
      await main(bench, measured.deps);
      const given = `w.json ${argv} --against r.json --json out.json --seeds ${seeds}`;
      const { world } = await simulate(given, { ...files, 'r.json': measured.files.get('r.json')! });
      const [arm] = parsed(world.files.get('out.json')).against!.arms;
      const pulled = arm!.figures.find(({ name }) => name === 'pulled tokens')!;
      return { ...arm!.requests, pulled, said: world.out() };
    };
    const once = await compared(1, 1);
    expect(once.real).toBe(once.simulated);
    expect(once.pulled.simulated).toBeGreaterThan(0);
    const often = await compared(3, 2);
    expect(often).toMatchObject({ real: once.real, simulated: once.simulated, pulled: once.pulled });
    expect(often.said).not.toContain('not the same workload');
  });

  it('says so if the report for --against has other clients, on the page too', async () => {
    const files = { 'w.json': small };
    const argv = '--mode bidirectional --experiments prefix-caching';
    const measured = fakeWorld({}, files);
    const bench = `bench w.json ${argv} --rounds 1 --num-clients 2 --json r.json`;
    await main(bench.split(' '), measured.deps);
    const said = async (more: string) => {
      const given = `w.json ${argv} --against r.json --html out.html ${more}`;
      const { world } = await simulate(given, { ...files, 'r.json': measured.files.get('r.json')! });
      return [world.out().replace(/\s+/g, ' '), world.files.get('out.html')!];
    };
    for (const text of await said('--num-clients 3'))
      expect(text).toContain('The report has 2 clients, the simulation 3 clients: the load differs');
    for (const text of await said('--num-clients 2')) expect(text).not.toContain('the load differs');
    // As many arrivals as the workload has conversations, so that as many requests come.
    for (const text of await said('--arrival-rate 5 --arrivals 12'))
      expect(text).toContain('The report has 2 clients, the simulation open-loop arrivals');
  });

  it('says how to simulate the pools of the report for --against', async () => {
    const files = { 'w.json': small };
    const argv = 'w.json --mode bidirectional --experiments prefix-caching --num-clients 2';
    const pools = '--p-blocks 150 --d-blocks 170';
    const measured = fakeWorld({}, files);
    await main(`bench ${argv} --rounds 1 ${pools} --json r.json`.split(' '), measured.deps);
    const said = async (more: string) => {
      const given = `${argv} --against r.json ${more}`;
      const { world } = await simulate(given, { ...files, 'r.json': measured.files.get('r.json')! });
      return world.out().replace(/\s+/g, ' ');
    };
    expect(await said('--p-blocks 200 --d-blocks 170')).toContain(
      `150 and 170 KV blocks in the report, 200 and 170 in the simulation: give ${pools} to simulate these.`,
    );
    expect(await said(pools)).not.toContain('KV blocks in the report');
  });

  it('compares the experiment that it simulates if the report for --against has several', async () => {
    const files = { 'w.json': small };
    const argv = ['--mode', 'unidirectional', '--num-clients', '2'];
    const measured = fakeWorld({}, files);
    await main(['bench', 'w.json', ...argv, '--rounds', '1', '--json', 'r.json'], measured.deps);
    const real = JSON.parse(measured.files.get('r.json')!) as BenchReport;
    for (const [i, experiment] of Object.values(real.experiments).entries())
      experiment.modes.unidirectional!.requests_per_second = i + 1;
    const rateOf = (key: string) => real.experiments[key]!.modes.unidirectional!.requests_per_second;
    const compared = async (more: string) => {
      const given = `w.json ${argv.join(' ')} --against r.json --json out.json ${more}`;
      const { world } = await simulate(given, { ...files, 'r.json': JSON.stringify(real) });
      const { arms } = parsed(world.files.get('out.json')).against!;
      return arms.map(({ figures }) => figures.find(({ unit }) => unit === '/s')!.real);
    };
    expect(Object.keys(real.experiments)).toHaveLength(3);
    expect(await compared('')).toEqual([rateOf('prefix_caching')]);
    expect(await compared('--experiments eviction,prefix-caching')).toEqual([
      rateOf('eviction'),
      rateOf('prefix_caching'),
    ]);
  });

  it('accepts fewer arrivals than the preset has active conversations', async () => {
    const { code, world } = await simulate('--mode bidirectional --arrival-rate 5 --arrivals 1 --costs zero');
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
  });

  it.each([
    ['w.json --mode foo', 'leave it out for unidirectional, bidirectional, decode-local'],
    ['w.json --explain-scaling', 'whose report contains every decision that changed something; leave it out'],
    ['w.json --drain drop', 'give --autoscale NAME or --faults N too, or leave it out'],
    ['w.json --costs mocker', "there is no cost model 'mocker'"],
    ['w.json --costs ./none.json', 'cannot read ./none.json'],
    ['w.json --costs ./bad.json', 'step in ./bad.json has no parameter'],
    ['w.json --costs ./other.json', 'was measured with model nano, and tiny is simulated: give --model nano'],
    [
      'w.json --costs ./w.json',
      './w.json is not a costs file: its kvferry_simulation_costs is missing, wanted 1',
    ],
    [
      'w.json --against ./run.json',
      "./run.json is a report of kind 'run': wanted one of kvferry bench or replay",
    ],
    ['w.json --against ./plan.json', "'plan': wanted one of kvferry bench or replay"],
    ['w.json --budget 10m', '--budget has no effect in a simulation'],
    ['w.json --arrivals 5', '--arrivals is given and --arrival-rate is not'],
    [
      'w.json --store-dir kv --store-dir-size 64',
      "the store's folder is limited to 64 bytes, but a block takes",
    ],
    ['w.json --store 64', 'the store has 64 bytes of memory, but a block of this model'],
    ['w.json --cost-profile p.json', '--cost-profile is given and --pull-policy is threshold'],
    ['w.json --p-blocks 3', 'the longest conversation needs'],
    ['w.json --trace-scale 1/2', '--trace-scale has no effect without a trace'],
    ['w.json --arrival-rate 1 --num-clients 4', '--num-clients has no effect with --arrival-rate'],
    ['--num-clients 40', 'preset pr32553 has 24 conversations and --num-clients is 40'],
    ['w.json --warmup-percentages 10%', '--warmup-percentages has no effect without warm-up'],
    ['w.json --adapter gpu', '--adapter has no effect in a simulation without --validate'],
    ['w.json --rounds 2', '--rounds has no effect in a simulation without --validate'],
    ['w.json --validate --html page.html', '--html has no effect with --validate'],
    ['w.json --validate --store 1MiB', '--store and --validate are both given: calibrate measures'],
    ['w.json --validate --store-dir kv', '--store-dir and --validate are both given: calibrate measures'],
    ['w.json --validate --faults 3', '--faults and --validate are both given: leave one of them out'],
    ['w.json --trace t.jsonl', '--trace is given with a FILE, --arrival-rate or --validate'],
    ['w.json --max-decode 8', '--max-decode has no effect on a fleet of fixed size'],
    ['w.json --drain drop', '--drain has no effect where no engine joins or leaves'],
    ['w.json --start-up 2s', '--start-up has no effect where no engine joins'],
    ['w.json --no-offload-prompt-only', '--no-offload-prompt-only has no effect without a store'],
    [
      'w.json --pull-policy cost-aware --threshold 9',
      '--threshold has no effect with --pull-policy cost-aware',
    ],
    [
      'w.json --store 1MiB --kv-transfer-config {"kv_connector":"OffloadingConnector"} --handover streamed',
      '--handover has no effect with this --kv-transfer-config',
    ],
    [
      'w.json --routing llm-d --routing-config {"prefix-cache":{"imbalance":9}}',
      '--routing-config has no effect with --routing llm-d: its parameters are for prefix-cache',
    ],
    [
      'w.json --routing random,power-of-two --signal-age 1s',
      '--signal-age has no effect with --routing random,power-of-two, which',
    ],
    ['w.json --link-sharing fair', '--link-sharing has no effect without a modelled link'],
    ['--trace t.jsonl --experiments eviction', "--experiments has no effect with --trace: set P's cache"],
    ['--trace t.jsonl --preset pr32553', '--preset has no effect with --trace'],
  ])('refuses %s and says what is wrong', async (argv, message) => {
    const bad = JSON.stringify({ ...JSON.parse(mine), step: { ms: 1 } });
    const { code, world } = await simulate(argv, {
      ...{ 'w.json': small, './bad.json': bad },
      ...{ './w.json': small, './run.json': reportOf('run'), './plan.json': reportOf('plan') },
      './other.json': JSON.stringify({ ...JSON.parse(mine), model: 'nano' }),
    });
    expect(code).toBe(2);
    expect(world.err()).toContain(message);
  });
});
