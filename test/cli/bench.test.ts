import { describe, expect, test, vi } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { RequestError } from '../../src/errors.ts';
import { benchReportSchema } from '../../src/measure/schemas/bench-report.ts';
import { generator } from '../workload/generator.ts';
import { fakeWorld } from './fake.ts';
import { benchOf } from './fake-bench.ts';
import { FakeCluster } from './fake-cluster.ts';

const spec = generator({
  conversations: 4,
  turns: 6,
  common: 10,
  prefix: [20, 40],
  input: [5, 9],
  output: 6,
});
const bench = benchOf(spec);

describe('kvferry bench', () => {
  test('writes a report that fits its schema, with the fields that assertions and tools rely on', async () => {
    const { code, report, world } = await bench(['gen.json', '--num-clients', '2', '--json', 'out.json']);
    expect(world.err()).not.toMatch(/bug/);
    expect(code).toBe(0);
    expect(benchReportSchema.parse(report)).toEqual(report);
    expect(Object.keys(report!.experiments)).toEqual(['no_prefix_caching', 'prefix_caching', 'eviction']);
    expect(Object.keys(report!.experiments.prefix_caching!.modes)).toEqual([
      'unidirectional',
      'bidirectional',
      'decode_local',
    ]);
    expect(report!.modes.bidirectional!.pulled_tokens).toBeGreaterThan(0);
    expect(report!.comparison!.tokens_identical).toBe(true);
    expect(report!.comparison!.ttft_ms.mean.ratio).toBeGreaterThan(1);
    expect(report!.comparison!.requests).toBe(3 * 4 * 3);
    expect(report!.plan.rounds).toBe(3);
    expect(report!.complete).toBe(true);
    expect(report!.modes.unidirectional!.table.input_num_turns.max).toBe(5);
    expect(report!.modes.unidirectional!.table.output_num_tokens).toMatchObject({ mean: 6, std: 0 });
    expect(world.clusters[0]!.closed).toBe(1);
  });

  test("prints at most 80 columns, in tables with vLLM's rows", async () => {
    const { world } = await bench(['gen.json', '--num-clients', '2', '--warmup-percentages', '0%,50%']);
    for (const line of world.out().split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
    for (const row of ['ttft_ms', 'tpot_ms', 'latency_ms', 'input_num_turns', 'output_num_chunks'])
      expect(world.out()).toContain(`\n${row}`);
    expect(world.out()).toContain('without the first 50% of each round');
    expect(world.err()).toMatch(/round 2 of 3, eviction, bidirectional: 12 requests in .* left/);
  });

  test("adds a row for vLLM's threshold if the threshold is scaled, but not if it is given", async () => {
    const modes = async (...more: string[]) => {
      const scaled = ['--preset', 'pr32553', '--scale', '1/64', '--rounds', '1', '--max-num-requests', '8'];
      const asked = ['--mode', 'bidirectional', '--experiments', 'prefix-caching', '--json', 'out.json'];
      const { report, world } = await bench([...scaled, ...asked, ...more]);
      const text = world.out().replaceAll('\n', ' ');
      const begun = world.err().match(/^1\/1 .*(?=: \d+ to do$)/gm);
      return { arms: Object.keys(report!.experiments.prefix_caching!.modes), text, begun };
    };
    const scaled = await modes();
    expect(scaled.arms).toEqual(['bidirectional', 'bidirectional_threshold_64']);
    expect(scaled.begun).toEqual(['1/1 bidirectional', '1/1 bidirectional, threshold 64']);
    expect(scaled.text).toMatch(/so is the threshold: 1 token; vLLM's unscaled 64 has a row of its own/);
    const given = await modes('--threshold', '32');
    expect(given.arms).toEqual(['bidirectional']);
    expect(given.text).toContain('but the threshold is not scaled: 32 tokens, as given');
  });

  test('gives the same requests and times for the same seed, and others for another seed', async () => {
    const run = async (seed: string) => {
      const { report } = await bench(['gen.json', '--seed', seed, '--rounds', '1', '--json', 'out.json']);
      const samples = report!.experiments.no_prefix_caching!.modes.bidirectional!.samples;
      return samples.map(({ conversation_id, turn, input_num_tokens, ttft_ms }) => [
        conversation_id,
        turn,
        input_num_tokens,
        ttft_ms,
      ]);
    };
    expect(await run('3')).toEqual(await run('3'));
    expect(await run('3')).not.toEqual(await run('4'));
  });

  test("scales the preset's threshold, adds vLLM's own as a row, and shows the published figures", async () => {
    const { code, report, world } = await bench([
      ...['--preset', 'pr32553', '--scale', '1/64', '--model', 'nano', '--rounds', '1', '--json', 'out.json'],
    ]);
    expect(code).toBe(0);
    expect(report!.config).toMatchObject({ threshold: 1, numClients: 2, maxActiveConversations: 24 });
    expect(report!.workload).toMatchObject({ conversations: 24, num_clients: 2, scale: '1/64' });
    expect(report!.experiments.prefix_caching!.modes.bidirectional_threshold_64?.threshold).toBe(64);
    expect(report!.experiments.no_prefix_caching!.published?.ttft_ms.mean?.ratio).toBeCloseTo(2.107, 2);
    expect(world.out()).toContain('compared with vLLM PR 32553');
    expect(world.out()).toMatch(/Every length is 1\/64/);
  });

  test('shows the published figures only if pulling is compared with not pulling', async () => {
    const { report, world } = await bench([
      ...['--preset', 'pr32553', '--scale', '1/64', '--model', 'nano', '--rounds', '1', '--json', 'out.json'],
      ...['--mode', 'bidirectional'],
    ]);
    const { comparison, published } = report!.experiments.prefix_caching!;
    expect([comparison!.reference, comparison!.candidate, published]).toEqual([
      'bidirectional',
      'bidirectional_threshold_64',
      null,
    ]);
    expect(world.out()).not.toContain('compared with vLLM PR 32553');
  });

  test('prints the name of the reference mode, not its key in the report', async () => {
    const { world } = await bench(['gen.json', '--rounds', '1', '--mode', 'decode-local,monolithic']);
    expect(world.out()).toContain('against decode-local');
    expect(world.out()).toMatch(/ms\s+of\s+decode-local:/);
    expect(world.out()).not.toContain('decode_local');
  });

  test('runs the preset on a budget if no file is given', async () => {
    const { report } = await bench(['--rounds', '1', '--model', 'nano', '--json', 'out.json']);
    expect(report!.config).toMatchObject({ preset: 'pr32553', scale: '1/16', budget: '10m', threshold: 4 });
  });

  test('estimates the time of a round from the requests that its clients send', async () => {
    const aRound = async (...more: string[]) => {
      const { world } = await bench(['gen.json', '--rounds', '1', ...more]);
      return Number(/about ([\d.]+) s per round/.exec(world.err())![1]);
    };
    expect(await aRound('--max-num-requests', '1')).toBeLessThan((await aRound()) / 2);
  });

  test('notes that --store-dir keeps KV from the warm-up, and between modes and rounds', async () => {
    const notes = async (...more: string[]) => {
      const asked = ['gen.json', '--rounds', '1', '--store-dir', 'kv', '--json', 'out.json', ...more];
      return (await bench(asked)).report!.plan.notes;
    };
    const said = (which: string) =>
      expect.stringContaining(`--store-dir keeps KV from the warm-up and from one ${which} to the next.`);
    expect(await notes()).toContainEqual(said('mode and round'));
    expect(await notes('--mode', 'bidirectional')).toContainEqual(said('round'));
  });

  test('says so if the small pool of P has room for all active conversations', async () => {
    const asked = ['gen.json', '--rounds', '1', '--num-clients', '2', '--json', 'out.json'];
    const small = await bench(asked);
    expect(small.world.out()).toContain("== P's pool is small, but has room for all active conversations");
    expect(small.report!.plan.notes).toContainEqual(
      expect.stringMatching(/^There are no more active conversations than clients/),
    );
    const tight = await bench([...asked, '--max-active-conversations', '4']);
    expect(tight.world.out()).toContain("== P's pool is too small for all active conversations");
    expect(tight.report!.plan.notes).toEqual([]);
  });

  test("runs a single experiment if P's prefix caching is set by hand", async () => {
    const { report } = await bench([
      'gen.json',
      '--no-prefix-caching',
      '--rounds',
      '1',
      '--json',
      'out.json',
    ]);
    expect(Object.keys(report!.experiments)).toEqual(['no_prefix_caching']);
    expect(Object.keys(report!.modes)).toEqual(['unidirectional', 'bidirectional', 'decode_local']);
  });

  test('serves a model with sliding windows with all KV kept too, and compares the tokens', async () => {
    const { code, report, world } = await bench([
      ...['gen.json', '--model', 'tiny-hybrid', '--rounds', '1', '--json', 'out.json'],
    ]);
    expect(code).toBe(0);
    const { prefix_caching, eviction } = benchReportSchema.parse(report).experiments;
    expect(Object.keys(prefix_caching!.modes)).toContain('bidirectional_all_full_kv');
    expect(prefix_caching!.windows).toMatchObject({ mode: 'bidirectional', tokens_identical: true });
    expect(eviction!.windows).toBeUndefined();
    expect(world.out().replaceAll('\n', ' ')).toMatch(
      /Sliding windows, bidirectional, compared with all KV kept/,
    );
    const kept = await bench(['gen.json', '--model', 'tiny-hybrid', '--rounds', '1', '--all-full-kv']);
    expect(kept.world.out()).not.toMatch(/Sliding windows/);
  });

  test('fails if a mode gives other tokens, and names it', async () => {
    const { code, world } = await bench(['gen.json', '--rounds', '1'], {
      wrong: { mode: 'bidirectional', what: 'token' },
    });
    expect(code).toBe(1);
    expect(world.out().replaceAll('\n', ' ')).toMatch(/THE MODES DISAGREE: bidirectional, round 1, .*turn 2/);
  });

  test('generates answers as long as those in a list of conversations', async () => {
    const messages = [
      { role: 'user', content: 'abc' },
      { role: 'assistant', content: 'wxyz12' },
      { role: 'user', content: 'de' },
      { role: 'assistant', content: 'vv' },
    ];
    const list = JSON.stringify([{ id: 'x', messages }]);
    const { code, report } = await bench(
      ['list.json', '--rounds', '1', '--json', 'out.json'],
      {},
      { 'list.json': list },
    );
    expect(code).toBe(0);
    const { samples } = report!.experiments.no_prefix_caching!.modes.unidirectional!;
    expect(samples.map(({ output_num_tokens }) => output_num_tokens)).toEqual([6, 2]);
  });

  test('sizes pools and checks the context for answers as long as --limit-max-tokens makes them', async () => {
    const limits = (tokens: number) => ['--limit-min-tokens', `${tokens}`, '--limit-max-tokens', `${tokens}`];
    const { report } = await bench(['gen.json', '--rounds', '1', '--json', 'out.json', ...limits(200)]);
    const { requests, output_tokens } = report!.workload;
    expect(output_tokens).toBe(200 * requests);
    // A conversation under way has three turns.
    expect(16 * report!.experiments.no_prefix_caching!.d_blocks!).toBeGreaterThan(3 * 200);
    const { code, world } = await bench(['gen.json', '--rounds', '1', ...limits(5000)]);
    expect(code).toBe(2);
    expect(world.err()).toContain("tokens and the model's context is");
    expect(world.clusters).toEqual([]);
  });

  test('prints a sentence and no table if no mode served a round', async () => {
    const world = fakeWorld({}, { 'gen.json': JSON.stringify(spec) });
    world.interruptAt('trying');
    expect(await main(['bench', 'gen.json'], world.deps)).toBe(130);
    expect(world.out()).toContain('INCOMPLETE: interrupted');
    expect(world.out()).toContain('nothing was measured');
    expect(world.out()).not.toContain('==');
  });

  test('on Ctrl-C writes what was served, marked incomplete, and exits with 130', async () => {
    const world = fakeWorld({}, { 'gen.json': JSON.stringify(spec) });
    world.interruptAt('round 1 of 3, prefix-caching, unidirectional');
    const code = await main(['bench', 'gen.json', '--json', 'out.json'], world.deps);
    expect(code).toBe(130);
    const report = benchReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    expect(report).toMatchObject({ complete: false, incomplete_reason: 'interrupted' });
    expect(report.modes.bidirectional!.requests).toBe(12);
    expect(report.plan.rounds).toBe(0);
    expect(world.out()).toContain('INCOMPLETE: interrupted');
    expect(world.out().replaceAll('\n', ' ')).toContain('; a part of the first round in ');
    expect(world.clusters[0]!.closed).toBe(1);
  });

  test('counts requests that failed in the round that Ctrl-C ends', async () => {
    const world = fakeWorld({}, { 'gen.json': JSON.stringify(spec) });
    const { generate } = FakeCluster.prototype;
    let count = 0;
    const generated = vi.spyOn(FakeCluster.prototype, 'generate').mockImplementation(function (
      this: FakeCluster,
      request,
    ) {
      // From the second arm on: trial requests belong to no round.
      if (world.err().includes('round 1 of 3, no-prefix-caching, unidirectional')) count++;
      if (count === 1) throw new RequestError('refused');
      if (count === 3) world.interrupt();
      return generate.call(this, request);
    });
    const code = await main(['bench', 'gen.json', '--json', 'out.json'], world.deps);
    generated.mockRestore();
    expect(code).toBe(130);
    const report = benchReportSchema.parse(JSON.parse(world.files.get('out.json')!));
    const { modes } = report.experiments.no_prefix_caching!;
    expect(modes.bidirectional).toMatchObject({
      failed_requests: 1,
      errors: [{ message: 'refused', count: 1 }],
    });
  });

  test('is shortened by --max-num-requests, --max-turns and --early-stop as in vLLM', async () => {
    const count = async (...options: string[]) => {
      const { report } = await bench(['gen.json', '--rounds', '1', '--json', 'out.json', ...options]);
      const { requests } = report!.modes.unidirectional!;
      asked = report!.workload.requests;
      return requests;
    };
    let asked = 0;
    expect(await count()).toBe(12);
    expect(asked).toBe(12);
    expect(await count('--max-num-requests', '5', '--num-clients', '2')).toBe(4);
    expect(asked).toBe(4);
    expect(await count('--max-turns', '4')).toBe(8);
    expect(asked).toBe(8);
    // All four are active from the beginning: when the first ends, no other is left to start.
    expect(await count('--early-stop', '--max-active-conversations', '4')).toBe(9);
    expect(await count('--warmup-step')).toBe(8);
  });

  test('with --audit serves a share of the turns both ways, in rounds that are not timed', async () => {
    const costAware = ['--pull-policy', 'cost-aware', '--model', 'nano'];
    const options = ['gen.json', '--rounds', '2', '--json', 'out.json', ...costAware];
    const plain = await bench(options);
    const { code, report, world } = await bench([...options, '--audit', '50%']);
    expect(code).toBe(0);
    expect(benchReportSchema.parse(report)).toEqual(report);
    const { audit, ...audited } = report!.experiments.no_prefix_caching!;
    const { audit: none, ...unaudited } = plain.report!.experiments.no_prefix_caching!;
    expect(none).toBeUndefined();
    expect(Object.keys(audited.modes)).toEqual(Object.keys(unaudited.modes));
    expect(audited.comparison!.ttft_ms).toEqual(unaudited.comparison!.ttft_ms);
    // 4 conversations of 3 turns, in 2 rounds; first turns have nothing to pull.
    expect(audit).toMatchObject({ requests: 24, failed_requests: 0 });
    expect(audit!.turns.map(({ round }) => round)).toEqual([...Array(4).fill(1), ...Array(4).fill(2)]);
    for (const { turn, chose, chosen_ttft_ms, other_ttft_ms, regret_ms } of audit!.turns) {
      expect(turn).toBeGreaterThan(1);
      expect(chose).toBe('pull');
      // The fake computes a token in 1 ms and pulls at no cost.
      expect(other_ttft_ms).toBeGreaterThan(chosen_ttft_ms);
      expect(regret_ms).toBe(0);
    }
    const said = world.out().replaceAll('\n', ' ');
    expect(said).toContain(
      'Audit: 8 turns served both ways; cost-aware chose the slower way in 0 and lost 0.0',
    );
  });

  test.each([
    [['gen.json', '--audit', '5%'], /--audit is 5% and --pull-policy is threshold: .* give --pull-policy/],
    [
      ['gen.json', '--audit', '5%', '--pull-policy', 'cost-aware', '--mode', 'unidirectional,monolithic'],
      /--audit is 5% and --mode is unidirectional,monolithic: .* add it/,
    ],
    [
      ['gen.json', '--audit', '5%', '--routing', 'round-robin,llm-d', '--prefill', '2'],
      /--audit is 5% and --routing is round-robin,llm-d: .* give one/,
    ],
    [['gen.json', '--audit', '5%', '--paths'], /--audit is 5% and --paths is given: .* leave --paths out/],
    [['--max-tokens', '5'], /--max-tokens has no effect on a preset/],
    [['gen.json', '--slo-ttft', '1ms'], /--slo-ttft has no effect with a single policy/],
    [
      ['gen.json', '--audit', '5%', '--endpoint', 'http://x', '--model', 'm'],
      /and --endpoint measures a server/,
    ],
    [['gen.json', '--preset', 'pr32553'], /--input-file and --preset are both given/],
    [['gen.json', '--scale', '1/0'], /--scale is '1\/0': wanted 1, or 1\/N/],
    [['gen.json', '--budget', 'soon'], /--budget is 'soon': wanted a time above 0/],
    [['gen.json', '--num-clients', '0'], /1 or more; or leave it out for 1$/m],
    [['--num-clients', '0'], /1 or more; or leave it out for 2$/m],
    // A preset of null counts as omitted, so the default one applies.
    [['--config', 'null.json'], /'numClients' in null.json is null: wanted .* leave it out for 2$/m],
    [['gen.json', '--num-clients', '5'], /gen.json has 4 conversations and --num-clients is 5/],
    [['one.json', '--num-clients', '2'], /one.json has 1 conversation and --num-clients is 2/],
    [['gen.json', '--max-active-conversations', '9'], /--max-active-conversations is 9, but gen.json has 4/],
    [
      ['gen.json', '--warmup-step', '--max-turns', '2'],
      /--warmup-step leaves first turns out.* no conversation of gen.json has a second turn/,
    ],
    [['gen.json', '--limit-min-tokens', '5'], /give both, or neither/],
    [['gen.json', '--warmup-percentages', '100%'], /percentages below 100/],
    [['gen.json', '--p-blocks', '3'], /--p-blocks is 3, but the longest conversation needs \d+ blocks/],
    [
      ['gen.json', '--max-model-len', '40'],
      /the longest conversation has \d+ tokens and the model's context is 40/,
    ],
    [['none.json'], /cannot read none.json/],
    [['gen.json', '--json', '/read-only/x.json'], /cannot write \/read-only\/x.json/],
    [['gen.json', 'more'], /'more' is one argument too many/],
    [['list.json', '--scale', '1/2'], /list.json is a list of conversations/],
    [['gen.json', '--threshold', '9', '--endpoint', 'http://x'], /--threshold has no effect with --endpoint/],
    [['gen.json', '--request-timeout-sec', '9'], /--request-timeout-sec has no effect without a server/],
    [['gen.json', '--paths', '--mode', 'monolithic'], /--mode has no effect with --paths/],
    [['gen.json', '--token-ids', '--endpoint', 'http://x', '--model', 'm'], /give --tokenizer/],
    [['gen.json', '--endpoint', 'ftp://x', '--model', 'm'], /begins with http/],
    [
      ['gen.json', '--endpoint', 'http://me:secret@x'],
      /give http:\/\/x\/, and the server's key in OPENAI_API_KEY/,
    ],
    [['gen.json', '--endpoint', 'x?key=1'], /wanted a URL without \?key=1/],
    [['gen.json', '--endpoint', 'a', '--url', 'b'], /--endpoint and --url are both given/],
    [['missing.json'], /text_files in missing\.json: .*\/none\.txt.*, or remove text_files to draw contents/],
    [['short.json'], /book.txt has \d+ tokens and the conversations take \d+/],
  ])('refuses %j before anything starts', async (options, message) => {
    const more = {
      'list.json': JSON.stringify([{ role: 'user', content: 'hi' }]),
      'one.json': JSON.stringify({ ...spec, num_conversations: 1 }),
      'short.json': JSON.stringify({ ...spec, text_files: ['/book.txt'] }),
      'missing.json': JSON.stringify({ ...spec, text_files: ['/none.txt'] }),
      'null.json': JSON.stringify({ preset: null, numClients: null }),
      '/book.txt': 'too short a text',
    };
    const { world, code } = await bench(options, {}, more);
    expect(world.err()).toMatch(message);
    expect(code).toBe(2);
    expect(world.clusters).toHaveLength(0);
  });
});
