import { describe, expect, it, vi } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { RequestError } from '../../src/errors.ts';
import { benchReportSchema } from '../../src/measure/schemas/bench-report.ts';
import { simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { fakeWorld } from './fake.ts';
import { FakeCluster } from './fake-cluster.ts';

const row = (timestamp: number, hash_ids: number[]) =>
  `${JSON.stringify({ timestamp, input_length: 512 * hash_ids.length, output_length: 100, hash_ids })}\n`;
const TRACE = row(0, [0, 1]) + row(8, [0, 1, 2, 3]) + row(9, [4]);

async function replay(args: readonly string[], files: Record<string, string> = {}) {
  const world = fakeWorld({}, { 't.jsonl': TRACE, ...files });
  const code = await main(['replay', ...args], world.deps);
  return { world, code };
}

describe('kvferry replay', () => {
  it('serves each request in both modes, says how the trace was scaled, and writes a valid report', async () => {
    const { world, code } = await replay(['t.jsonl', '--json', 'r.json', '--html', 'r.html']);
    expect([code, world.err()]).toEqual([0, expect.stringContaining('3 requests in 2 conversations')]);
    const out = world.out().replace(/\s+/g, ' ');
    expect(out).toContain(
      "Workload: t.jsonl at scale 1/32, 2 conversations, 3 requests per round, sent at the trace's times",
    );
    expect(out).toContain(
      "Every length is 1/32 of the trace's: a block of 512 tokens is one of 16; arrivals are as in the trace.",
    );
    expect(out).toContain('computed the same logits for every request.');
    for (const line of world.out().split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const report = benchReportSchema.parse(JSON.parse(world.files.get('r.json')!));
    expect(Object.keys(report.modes)).toEqual(['unidirectional', 'bidirectional']);
    expect(report.experiments.replay!.modes.bidirectional!.samples.map(({ turn }) => turn).sort()).toEqual([
      1, 1, 2,
    ]);
    expect(world.files.get('r.html')).toContain('sent at the trace&#39;s times');
    expect(world.clusters[0]!.closed).toBe(1);
  });

  it('divides the default threshold like the lengths, and keeps one that is given, even if it is the default', async () => {
    const files = {
      'settings.json': '{"threshold": 64}',
      'azure.csv': 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,100,10\n',
    };
    const json = '{"kv_connector_extra_config":{"kv_recompute_threshold":64}}';
    const thresholdOf = async (...args: string[]) => {
      const { world } = await replay([...args, '--json', 'r.json'], files);
      const [note] = /The threshold is [^.]*\./.exec(world.out().replace(/\s+/g, ' ')) ?? [];
      return [JSON.parse(world.files.get('r.json')!).modes.bidirectional.threshold, note];
    };
    expect(await thresholdOf('t.jsonl')).toEqual([2, 'The threshold is divided likewise: 2 tokens.']);
    expect(await thresholdOf('t.jsonl', '--trace-scale', '1/64')).toEqual([
      1,
      'The threshold is divided likewise: 1 token.',
    ]);
    expect(await thresholdOf('azure.csv')).toEqual([64, undefined]);
    expect(await thresholdOf('t.jsonl', '--threshold', '64')).toEqual([64, undefined]);
    expect(await thresholdOf('t.jsonl', '--config', 'settings.json')).toEqual([64, undefined]);
    expect(await thresholdOf('t.jsonl', '--kv-transfer-config', json)).toEqual([64, undefined]);
  });

  it('says that nothing could be pulled if every conversation has one turn, and advises nothing', async () => {
    const { world } = await replay(['one.jsonl'], { 'one.jsonl': row(0, [0, 1]) + row(8, [2, 3]) });
    const out = world.out().replace(/\s+/g, ' ');
    expect(out).toMatch(/^ kvferry \S+ replay: /);
    expect(out).toContain(
      'nothing was pulled, so the modes did the same work and no difference in time counts; no conversation has a second turn',
    );
    expect(out).not.toContain('lower --threshold');
  });

  it('fails if no request was answered', async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    const refused = vi.spyOn(FakeCluster.prototype, 'generate').mockImplementation(() => {
      throw new RequestError('refused');
    });
    const code = await main(['replay', 't.jsonl'], world.deps);
    refused.mockRestore();
    expect(code).toBe(1);
  });

  it('compares policies if several are named', async () => {
    const { world, code } = await replay([
      't.jsonl',
      '--prefill',
      '2',
      '--routing',
      'round-robin,least-request',
      '--json',
      'r.json',
    ]);
    expect(code).toBe(0);
    expect(Object.keys(JSON.parse(world.files.get('r.json')!).modes)).toEqual([
      'round_robin',
      'least_request',
    ]);
  });

  it('on Ctrl-C in the first round writes what the current mode has served', async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    const { generate } = FakeCluster.prototype;
    let count = 0;
    // The warm-up has three requests.
    const generated = vi.spyOn(FakeCluster.prototype, 'generate').mockImplementation(function (
      this: FakeCluster,
      request,
    ) {
      if (++count === 6) world.interrupt();
      return generate.call(this, request);
    });
    const code = await main(['replay', 't.jsonl', '--mode', 'bidirectional', '--json', 'r.json'], world.deps);
    generated.mockRestore();
    const report = benchReportSchema.parse(JSON.parse(world.files.get('r.json')!));
    expect([code, report.incomplete_reason]).toEqual([130, 'interrupted']);
    expect(report.modes.bidirectional!.requests).toBe(2);
  });

  it('on Ctrl-C in a later round writes the rounds that ended in both modes', async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    world.interruptAt('round 2 of 3, prefix-caching, bidirectional');
    expect(await main(['replay', 't.jsonl', '--rounds', '3', '--json', 'r.json'], world.deps)).toBe(130);
    const { rounds, modes } = JSON.parse(world.files.get('r.json')!).experiments.replay;
    expect([rounds, modes.unidirectional.requests, modes.bidirectional.requests]).toEqual([1, 3, 3]);
  });

  it('refuses a trace that can be read only once before any engine starts', async () => {
    const world = fakeWorld({}, { '/dev/fd/63': TRACE });
    const deps = { ...world.deps, plainFileId: async () => null };
    expect(await main(['replay', '/dev/fd/63'], deps)).toBe(2);
    expect(world.err()).toContain(
      '/dev/fd/63 is not a regular file, and a trace is read again for each mode',
    );
    expect(world.clusters).toEqual([]);
  });

  it.each([
    [[], 'no trace is given: wanted kvferry replay FILE'],
    [['none.jsonl'], 'cannot read none.jsonl'],
    [
      ['t.jsonl', '--trace-block-size', '24'],
      'a trace block of 24 tokens is not a multiple of --block-size 16',
    ],
    [['t.jsonl', '--max-tokens', '7'], '--max-tokens has no effect on a trace'],
    [['t.jsonl', '--slo-ttft', '1ms'], '--slo-ttft has no effect with a single policy'],
    [['t.jsonl', '--think-time', '1s'], '--think-time has no effect on a mooncake trace'],
    [['t.jsonl', '--temperature', '1'], '--temperature has no effect on a trace, which contains its answers'],
    [['t.jsonl', '--store-place', 'remote'], '--store-place has no effect without a store'],
    [['t.jsonl', '--trace-scale', '1/3'], 'a trace block of 512 tokens divided by 3'],
    [
      ['t.jsonl', '--max-model-len', '60'],
      't.jsonl, line 2: prompt and answer have 2148 tokens (68 when divided by 32) and the context holds 60',
    ],
    [['t.jsonl', '--p-blocks', '4'], '--p-blocks is 4, but the longest request needs 5 blocks of 16 tokens'],
    [['bad.jsonl'], 'bad.jsonl, line 4: it is not JSON'],
  ])('refuses %j before any engine starts', async (args, message) => {
    const { world, code } = await replay(args, { 'bad.jsonl': `${TRACE}nonsense\n` });
    expect(code).toBe(2);
    expect(world.err()).toContain(message);
    expect(world.clusters).toEqual([]);
  });

  it('reports skipped lines only once', async () => {
    const { world, code } = await replay(['bad.jsonl', '--skip-bad'], { 'bad.jsonl': `${TRACE}nonsense\n` });
    expect(code).toBe(0);
    expect(world.out().match(/1 bad line skipped/g)).toHaveLength(1);
  });

  it('writes a report from which calibrate fits costs for kvferry simulate', async () => {
    const many = Array.from({ length: 12 }, (_, i) =>
      row(
        i,
        Array.from({ length: 1 + i }, (_, j) => 100 * i + j),
      ),
    ).join('');
    const { world } = await replay(['m.jsonl', '--mode', 'unidirectional', '--json', 'r.json'], {
      'm.jsonl': many,
    });
    expect(
      await main(['calibrate', '--from-report', 'r.json', '--costs-out', 'costs.json'], world.deps),
    ).toBe(0);
    expect(world.out()).toContain('wrote costs.json:\n  kvferry simulate --costs costs.json\n');
    expect(simulationCostsSchema.parse(JSON.parse(world.files.get('costs.json')!)).source).toBe('fitted');
    await main(['calibrate', '--from-report', 'r.json', '--costs-out', 'costs'], world.deps);
    expect(world.out()).toContain('kvferry simulate --costs ./costs\n');
    expect(world.clusters).toHaveLength(1);
    expect(await main(['calibrate', 'p.json', '--from-report', 'r.json'], world.deps)).toBe(2);
    expect(world.err()).toContain('--from-report fits costs for simulate');
  });
});
