import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { type SimulationReport, simulationReportSchema } from '../../src/measure/simulation-report.ts';
import { fakeWorld } from './fake.ts';

const simulate = async (argv: string, files: Record<string, string> = {}) => {
  const world = fakeWorld({}, files);
  const code = await main(['simulate', ...argv.split(' ').filter(Boolean)], world.deps);
  return { code, world };
};

const small = JSON.stringify({
  filetype: 'generate_conversations',
  num_conversations: 12,
  prompt_input: {
    num_turns: { distribution: 'uniform', min: 4, max: 8 },
    prefix_num_tokens: { distribution: 'constant', value: 200 },
    num_tokens: { distribution: 'uniform', min: 20, max: 60 },
  },
  prompt_output: { num_tokens: { distribution: 'uniform', min: 10, max: 30 } },
});

const mine = JSON.stringify({
  kvferry_simulation_costs: 1,
  name: 'mine',
  source: 'assumed',
  step: { fixed_ms: 5, ms_per_prefill_token: 1, ms_per_decode: 1 },
  read: { fixed_ms: 2 },
});

const parsed = (text: string | undefined): SimulationReport =>
  simulationReportSchema.parse(JSON.parse(text!));

describe('kvferry simulate', () => {
  it('serves every mode, says whose times, and writes the same bytes for the same seed', async () => {
    const argv =
      'w.json --num-clients 3 --costs ./mine.json --threshold 8 --json out.json --html page.html --slo-ttft 300ms';
    const files = { 'w.json': small, './mine.json': mine };
    const { code, world } = await simulate(argv, files);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const report = parsed(world.files.get('out.json'));
    expect(report.costs).toEqual({ name: 'mine', source: 'assumed', about: '' });
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
    expect(world.out()).toContain('Times assumed: mine');
    expect(
      world
        .out()
        .split('\n')
        .every((line) => line.length <= 80),
    ).toBe(true);
    expect(world.files.get('page.html')).toContain('Load over time'.toLowerCase());
    const again = await simulate(argv, files);
    expect(again.world.files.get('out.json')).toBe(world.files.get('out.json'));
    const other = await simulate(`${argv} --seed 5`, files);
    expect(other.world.files.get('out.json')).not.toBe(world.files.get('out.json'));
  });

  it('tells a fleet that keeps up from one that does not', async () => {
    const argv =
      'w.json --mode bidirectional --costs ./mine.json --arrivals 200 --think-time 10ms --json out.json';
    const verdict = async (rate: number) => {
      const { world } = await simulate(`${argv} --arrival-rate ${rate}`, {
        'w.json': small,
        './mine.json': mine,
      });
      return parsed(world.files.get('out.json')).arms[0]!.verdict.word;
    };
    expect(await verdict(0.5)).toBe('STABLE');
    expect(await verdict(10)).toBe('OVERLOADED');
  });

  it('policies side by side, with several seeds', async () => {
    const { world } = await simulate(
      'w.json --prefill 2 --decode 2 --routing round-robin,prefix-cache --num-clients 4 --seeds 2 --invariants --json out.json',
      { 'w.json': small },
    );
    const { arms, costs } = parsed(world.files.get('out.json'));
    expect(costs.source).toBe('published');
    expect(arms.map(({ routing, seeds }) => [routing, seeds])).toEqual([
      ['round-robin', 2],
      ['prefix-cache', 2],
    ]);
    expect(arms[1]!.mean_ttft_ms_by_seed).toHaveLength(2);
    expect(arms[1]!.local_hit_tokens).toBeGreaterThan(arms[0]!.local_hit_tokens);
  });

  it.each([
    ['w.json --costs mocker', "there are no costs 'mocker'"],
    ['w.json --costs ./none.json', 'cannot read ./none.json'],
    ['w.json --costs ./bad.json', 'step: Unrecognized key'],
    ['w.json --budget 10m', '--budget is of no use to a simulation'],
    ['w.json --arrivals 5', '--arrivals is given and --arrival-rate is not'],
    ['w.json --p-blocks 3', 'the longest conversation takes'],
  ])('%s: says what is wrong', async (argv, message) => {
    const bad = JSON.stringify({ ...JSON.parse(mine), step: { ms: 1 } });
    const { code, world } = await simulate(argv, { 'w.json': small, './bad.json': bad });
    expect(code).toBe(2);
    expect(world.err()).toContain(message);
  });
});
