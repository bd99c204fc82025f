import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { simulationReportSchema } from '../../src/measure/schemas/simulation-report.ts';
import { fakeWorld } from './fake.ts';

const row = (timestamp: number, hash_ids: number[]) =>
  `${JSON.stringify({ timestamp, input_length: 512 * hash_ids.length, output_length: 512, hash_ids })}\n`;
/** The second request continues the first: two full blocks, the answer's one, and a new one. */
const TRACE = row(0, [0, 1]) + row(60_000, [0, 1, 2, 3]) + row(61_000, [9]);
/** Has no times. */
const CONVERSATIONS = JSON.stringify([
  {
    conversations: ['human', 'gpt', 'human', 'gpt'].map((from) => ({ from, value: 'some words' })),
  },
]);

async function simulate(args: readonly string[]) {
  const world = fakeWorld(
    {},
    { 't.jsonl': TRACE, 'bad.jsonl': `${TRACE}nonsense\n`, 'c.json': CONVERSATIONS },
  );
  const code = await main(['simulate', '--model', 'nano', '--trace', ...args], world.deps);
  const json = world.files.get('r.json');
  return { world, code, report: json === undefined ? null : simulationReportSchema.parse(JSON.parse(json)) };
}

describe('kvferry simulate --trace', () => {
  it('serves the trace in full, and pulls from D what D generated', async () => {
    const { code, report, world } = await simulate([
      't.jsonl',
      '--no-prefix-caching',
      '--json',
      'r.json',
      '--threshold',
      '1',
    ]);
    expect([code, world.clusters]).toEqual([0, []]);
    expect(report!.workload).toMatchObject({ source: 't.jsonl', scale: '1', conversations: 2, turns: 3 });
    const arm = (label: string) => report!.arms.find((each) => each.label === label)!;
    expect(arm('unidirectional')).toMatchObject({ requests: 3, failed_requests: 0, pulled_tokens: 0 });
    // The prompt, and the answer without its last token.
    expect(arm('bidirectional').pulled_tokens).toBe(1024 + 512 - 1);
    // The first turn's answer, a minute of thought, and the second turn.
    expect(arm('bidirectional').simulated_ms).toBeGreaterThan(60_000);
  });

  it('says how the trace was scaled, and gives the same bytes again', async () => {
    const run = async () =>
      simulate([
        't.jsonl',
        '--trace-scale',
        '1/32',
        '--speed-up',
        '10',
        '--mode',
        'bidirectional',
        '--json',
        'r.json',
      ]);
    const { report, world } = await run();
    expect(report!.workload.asked).toContain("Every length is 1/32 of the trace's");
    expect(report!.arms[0]!.prompt_tokens).toBe(16 * (2 + 4 + 1));
    expect((await run()).world.files.get('r.json')).toBe(world.files.get('r.json'));
  });

  it('divides the default threshold like the lengths, so that as much is pulled as of the whole trace', async () => {
    const bidirectional = async (...args: string[]) => {
      const { report } = await simulate(['t.jsonl', ...args, '--no-prefix-caching', '--json', 'r.json']);
      const { threshold, pulled_tokens } = report!.arms.find(({ label }) => label === 'bidirectional')!;
      return { threshold, pulled: pulled_tokens, asked: report!.workload.asked };
    };
    const scaled = ['--trace-scale', '1/32'];
    expect(await bidirectional()).toMatchObject({ threshold: 64, pulled: 32 * 48 - 1 });
    const pulling = await bidirectional(...scaled);
    expect(pulling).toMatchObject({ threshold: 2, pulled: 48 - 1 });
    expect(pulling.asked).toMatch(
      /arrivals are as in the trace\. The threshold is divided likewise: 2 tokens$/,
    );
    const given = await bidirectional(...scaled, '--threshold', '64');
    expect(given).toMatchObject({ threshold: 64, pulled: 0 });
    expect(given.asked).not.toContain('threshold');
  });

  it('says that the arrivals of a trace without times are drawn, and how', async () => {
    const { world } = await simulate(['c.json', '--conversation-rate', '3', '--think-time', '2s']);
    const out = world.out().replaceAll('\n', ' ');
    expect(out).toContain('1 conversation of c.json, 2 turns; at drawn times. Lengths are as in the trace; ');
    expect(out).toContain(
      '3 conversations begin per second, with exponential gaps, and each next turn comes 2 s after an answer',
    );
  });

  it.each([
    [['t.jsonl', '--arrival-rate', '5'], '--trace is given with a FILE, --arrival-rate or --validate'],
    [['t.jsonl', '--think-time', '5s'], 'on a mooncake trace, which contains its own arrival times'],
    [['bad.jsonl'], 'bad.jsonl, line 4: it is not JSON'],
    [
      ['t.jsonl', '--max-model-len', '2000'],
      'line 2: prompt and answer have 2560 tokens and the context holds 2000',
    ],
    [['t.jsonl', '--d-blocks', '50'], '--d-blocks is 50, but the longest request needs'],
  ])('refuses %j', async (args, message) => {
    const { world, code } = await simulate(args);
    expect(code).toBe(2);
    expect(world.err()).toContain(message);
  });

  it('compares the simulation with a replay of the same trace', async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    expect(await main(['replay', 't.jsonl', '--speed-up', '1000', '--json', 'real.json'], world.deps)).toBe(
      0,
    );
    const args = [
      'simulate',
      '--trace',
      't.jsonl',
      '--trace-scale',
      '1/32',
      '--against',
      'real.json',
      '--json',
      'r.json',
      '--html',
      'page.html',
    ];
    expect(await main(args, world.deps)).toBe(0);
    const { against } = simulationReportSchema.parse(JSON.parse(world.files.get('r.json')!));
    expect(against!.arms.map(({ label, real }) => [label, real])).toEqual([
      ['unidirectional', 'unidirectional'],
      ['bidirectional', 'bidirectional'],
    ]);
    const ttft = against!.arms[0]!.figures.find(({ name }) => name === 'TTFT mean')!;
    expect(ttft.error).toBeCloseTo(ttft.simulated! / ttft.real! - 1);
    for (const text of [world.out(), world.files.get('page.html')!])
      expect(text).toContain('bidirectional against bidirectional of real.json');
    expect(world.files.get('page.html')).toContain('hit rate</th>');
    const said = world.err().length;
    expect(
      await main([...args.slice(0, 5), '--against', 'real.json', '--mode', 'decode-local'], world.deps),
    ).toBe(2);
    // Refused before anything is simulated.
    expect(world.err().slice(said)).not.toContain('to do');
    expect(world.err().slice(said)).toContain(
      'real.json has unidirectional, bidirectional, but the simulation has decode-local',
    );
  });
});
