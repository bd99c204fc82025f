import { describe, expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import type { CliDeps } from '../../src/cli/deps.ts';
import { AdapterError, ConfigError, EngineDeadError, InternalError } from '../../src/errors.ts';
import { type Report, reportSchema } from '../../src/measure/schemas/report.ts';
import { fakeWorld, widest } from './fake.ts';

const short = ['run', '--model', 'nano', '--turns', '3', '--user-tokens', '20', '--output-tokens', '6'];

describe('kvferry run', () => {
  test('prints the tables of three modes, the summary and the verdict', async () => {
    const world = fakeWorld();
    expect(await main(short, world.deps)).toBe(0);
    const out = world.out();
    for (const heading of [
      'monolithic: one engine',
      'unidirectional: P prefills',
      'bidirectional: P pulls',
      'side by side',
    ]) {
      expect(out).toContain(heading);
    }
    expect(out).toContain('pulled nothing: D holds nothing before the first turn');
    expect(out).toContain('All 3 modes agree: the same 18 tokens from the same logits, bit for bit.');
    expect(out).toMatch(/Pulling D's KV back saved P \d+ of \d+ prompt tokens/);
    expect(out).toContain('Start-up, not counted below: 2.35 s');
    expect(world.clusters).toHaveLength(1);
    expect(world.clusters[0]?.closed).toBe(1);
    // The first is the warm-up's.
    expect(world.clusters[0]?.ended).toEqual(new Array(4).fill('random-1'));
  });

  test('reports one turn in the singular', async () => {
    const world = fakeWorld();
    expect(await main(['run', '--model', 'nano', '--turns', '1', '--mode', 'monolithic'], world.deps)).toBe(
      0,
    );
    expect(world.err()).toMatch(/^monolithic: 1 turn in /m);
  });

  test.each(['run', 'calibrate'])(
    'refuses store options without a store, for the command %s',
    async (command) => {
      const world = fakeWorld();
      expect(await main([command, '--model', 'nano', '--store-eviction', 'lru'], world.deps)).toBe(2);
      expect(world.err()).toContain('--store-eviction has no effect without a store: give --store BYTES too');
      expect(world.clusters).toHaveLength(0);
    },
  );

  test('refuses a remote store without the link that would lie in front of it', async () => {
    const world = fakeWorld();
    const remote = ['run', '--model', 'nano', '--store', '1MiB', '--store-place', 'remote'];
    expect(await main(remote, world.deps)).toBe(2);
    expect(world.err()).toContain('--store-place has no effect without --link, which it places in front of');
    expect(await main([...remote, '--link', '10e6,1ms'], world.deps)).toBe(0);
  });

  test('prints at most 80 columns, however large the numbers', async () => {
    const world = fakeWorld();
    const sizes = [
      '--system-tokens',
      '6000',
      '--user-tokens',
      '400',
      '--conversations',
      '12',
      '--turns',
      '4',
    ];
    expect(await main(['run', '--model', 'nano', ...sizes, '--link', '1gb/s,50us'], world.deps)).toBe(0);
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    expect(world.out()).toContain('more turns: see --json');
    expect(world.out()).toMatch(/^12\.4|^ *10\.4/m);
    const text = fakeWorld();
    expect(await main(['run'], text.deps)).toBe(0);
    expect(widest(text.out())).toBeLessThanOrEqual(80);
  });

  test('reports a single turn beyond the table in the singular', async () => {
    const world = fakeWorld();
    const sizes = ['--system-tokens', '16', '--user-tokens', '8', '--output-tokens', '4', '--turns', '41'];
    expect(await main(['run', '--model', 'nano', ...sizes], world.deps)).toBe(0);
    expect(world.out()).toContain('      1 more turn: see --json');
  });

  test('prints rows in which prompt = hit + pulled + computed', async () => {
    const world = fakeWorld();
    await main(short, world.deps);
    const rows = [...world.out().matchAll(/(\d+) = +(\d+) \+ +(\d+) \+ +(\d+)/g)];
    expect(rows).toHaveLength(9);
    for (const [, prompt, hit, pulled, computed] of rows)
      expect(Number(prompt)).toBe(Number(hit) + Number(pulled) + Number(computed));
  });

  test('shows the shipped conversation once, as text', async () => {
    const world = fakeWorld();
    expect(await main(['run'], world.deps)).toBe(0);
    expect(world.out().match(/What did Zorblax find\?/g)).toHaveLength(1);
    expect(world.out()).not.toContain('<end>');
    expect(world.clusters[0]?.options).toMatchObject({
      prefill: { enablePrefixCaching: false },
      connector: { nixl: { recomputeThreshold: 32 } },
    });
  });

  test('says if nothing will be pulled back because of --ttl', async () => {
    for (const [options, told] of [
      [['--ttl', '5'], true],
      [['--ttl', '5.5'], false],
      [['--ttl', '5', '--mode', 'unidirectional'], false],
    ] as const) {
      const world = fakeWorld();
      expect(await main([...short, ...options], world.deps)).toBe(0);
      expect(world.err().includes('nothing will be pulled back: --ttl is 5 s')).toBe(told);
    }
  });

  test('passes options to the cluster', async () => {
    const world = fakeWorld();
    const options = [
      '--threshold',
      '0',
      '--p-blocks',
      '99',
      '--block-size=32',
      '--ttl',
      '9',
      '--kv-dtype',
      'f32',
      '--no-token-check',
    ];
    expect(
      await main(
        [...short, ...options, '--mode', 'bidirectional', '--link', '10e6', '--seed', '7'],
        world.deps,
      ),
    ).toBe(0);
    expect(world.clusters[0]?.options).toMatchObject({
      blockSize: 32,
      kvDtype: 'f32',
      weightSeed: 7,
      prefill: { numBlocks: 99, enablePrefixCaching: true },
      connector: { nixl: { recomputeThreshold: 0, decoderTtlMs: 9000, tokenCheck: false } },
      link: { name: '10e6', bytesPerSecond: 10e6 },
    });
    expect(world.out()).toContain('Only bidirectional ran');
    expect(world.out()).toContain('throttled (modelled link)');
  });

  test("says that a fleet file's links are modelled wherever it says so of --link", async () => {
    const fleet = JSON.stringify({ rolesets: [{ node: 'a', prefill: 1, decode: 1 }], sameNode: '10e6,1ms' });
    const world = fakeWorld({}, { 'fleet.json': fleet });
    expect(await main([...short, '--fleet', 'fleet.json', '--markdown', 'run.md'], world.deps)).toBe(0);
    expect(world.out()).toContain('within a node; transfer times are');
    expect(world.out().match(/^throttled \(modelled link\): 10e6,1ms within a node$/gm)).toHaveLength(2);
    expect(world.out()).toMatch(/^side by side, throttled/m);
    expect(world.out()).toMatch(/saved P .*throttled/s);
    expect(world.files.get('run.md')).toContain('throttled (modelled link): 10e6,1ms within a node');
  });

  test('claims no gain if the threshold prevents every pull', async () => {
    const world = fakeWorld({ pullsNothing: true });
    expect(await main(short, world.deps)).toBe(0);
    expect(world.out()).toContain('Nothing was pulled');
    expect(world.out()).toContain('pulled nothing: 5 < threshold 64');
    expect(world.out()).not.toContain('faster');
  });

  test('with --json writes the report to stdout and the tables to stderr', async () => {
    const world = fakeWorld();
    expect(await main([...short, '--json'], world.deps)).toBe(0);
    const report: Report = reportSchema.parse(JSON.parse(world.out()));
    expect(report.runs.map(({ mode }) => mode)).toEqual(['monolithic', 'unidirectional', 'bidirectional']);
    expect(report.comparison).toMatchObject({
      tokens_identical: true,
      logits_identical: true,
      max_logit_difference: 0,
    });
    expect(report.comparison?.ttft_speedup?.mean).toBeGreaterThan(1);
    expect(report.config).toMatchObject({ model: 'nano', turns: 3 });
    for (const { turns } of report.runs) {
      for (const turn of turns) {
        expect(turn.prompt_tokens).toBe(turn.local_hit_tokens + turn.pulled_tokens + turn.computed_tokens);
        expect(turn.logits_digests).toHaveLength(turn.output_token_ids.length);
      }
    }
    expect(world.err()).toContain('side by side');
  });

  test('with --json FILE writes the report to the file and the tables to stdout', async () => {
    const world = fakeWorld();
    expect(await main([...short, '--json', 'out.json'], world.deps)).toBe(0);
    expect(() => reportSchema.parse(JSON.parse(world.files.get('out.json') ?? ''))).not.toThrow();
    expect(world.out()).toContain('side by side');
  });

  test.each(['token', 'logits'] as const)(
    'exits with 1 and says where if modes differ by: %s',
    async (what) => {
      const world = fakeWorld({ wrong: { mode: 'bidirectional', what } });
      expect(await main([...short, '--json', 'out.json'], world.deps)).toBe(1);
      const out = world.out().replaceAll('\n', ' ');
      expect(out).toContain('THE MODES DISAGREE: bidirectional first differs from monolithic');
      expect(out).toContain('at conversation random-1, turn 2, output token 1');
      expect(out).not.toContain('bit for bit');
      expect(reportSchema.parse(JSON.parse(world.files.get('out.json') ?? '')).comparison).toMatchObject({
        tokens_identical: what === 'logits',
        logits_identical: false,
      });
    },
  );

  test('fails if pipelines were compiled while it was timed, as do report and JUnit', async () => {
    const world = fakeWorld({ compilesLate: true });
    expect(await main([...short, '--json', 'out.json', '--junit', 'out.xml'], world.deps)).toBe(1);
    expect(world.out()).toContain('3 pipelines compiled during this run, so its times include compiling.');
    expect(world.files.get('out.xml')).toContain('failures="1"');
    const again = fakeWorld({}, { 'out.json': world.files.get('out.json')! });
    expect(await main(['report', 'out.json'], again.deps)).toBe(1);
    expect(again.out()).toContain('FAILED: nothing was compiled during timing: 9 pipelines');
  });

  test('fails if the integrity check fails', async () => {
    const world = fakeWorld({ integrityFails: new InternalError('block 7 is used twice') });
    expect(await main(short, world.deps)).toBe(1);
    expect(world.err()).toContain('block 7 is used twice (this is a bug; --debug shows where)');
    expect(world.clusters[0]?.closed).toBe(1);
  });

  test('does not call a limit of the system a bug', async () => {
    const said = "EMFILE: too many open files, open 'copy.wgsl'";
    const world = fakeWorld({ startFails: new InternalError(said) });
    expect(await main(short, world.deps)).toBe(1);
    expect(world.err()).toContain(`kvferry: ${said}: this process has reached its limit of open files`);
    expect(world.err()).not.toContain('bug');
  });

  test('exits with 1 and one sentence if engines do not start or there is no adapter', async () => {
    const dead = fakeWorld({ startFails: new EngineDeadError('engine prefill-0 ended: out of memory') });
    expect(await main(short, dead.deps)).toBe(1);
    expect(dead.err()).toMatch(/^kvferry: engine prefill-0 ended: out of memory$/m);
    const none = fakeWorld({ adapterFails: new AdapterError('no adapter for --adapter gpu') });
    expect(await main([...short, '--adapter', 'gpu'], none.deps)).toBe(1);
    expect(none.err()).toBe('kvferry: no adapter for --adapter gpu\n');
  });

  test('keeps concurrent conversations apart', async () => {
    const world = fakeWorld();
    expect(await main([...short, '--conversations', '3', '--concurrency', '2', '--json'], world.deps)).toBe(
      0,
    );
    const report = reportSchema.parse(JSON.parse(world.out()));
    expect(new Set(report.runs[0]?.turns.map((turn) => turn.conversation_id))).toEqual(
      new Set(['random-1', 'random-2', 'random-3']),
    );
    expect(report.comparison?.tokens_identical).toBe(true);
  });

  test('serves a conversation from a file', async () => {
    const messages = [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'ignored' },
      { role: 'user', content: 'two' },
    ];
    const world = fakeWorld({}, { 'talk.json': JSON.stringify(messages) });
    expect(await main(['run', '--model', 'nano', '--conversation', 'talk.json'], world.deps)).toBe(0);
    expect(world.out()).toMatch(/user {3}two/);
    expect(world.out()).not.toContain('ignored');
  });
});

describe('kvferry run with --trace-out, --gantt and --profile', () => {
  test('writes a trace, draws the turn asked for, and prints kernels', async () => {
    const world = fakeWorld();
    const argv = ['run', '--model', 'nano', '--trace-out', 'trace.json', '--gantt', '2', '--profile'];
    expect(await main(argv, world.deps)).toBe(0);
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    expect(world.out()).toContain('turn 2, bidirectional: what the first token waited for');
    expect(world.out()).toMatch(/^P prefill +█+ +/m);
    // 8e6 operations in 4 ms.
    expect(world.out()).toMatch(/^qkv +8 +4\.00 +66\.7% +2\.00 GFLOP\/s +20%$/m);
    expect(world.out()).toMatch(/^swiglu +4 +2\.00 +33\.3% +0\.500 GB\/s +10%$/m);
    const { traceEvents } = JSON.parse(world.files.get('trace.json') ?? '') as {
      traceEvents: { ph: string; name: string }[];
    };
    expect(traceEvents.filter(({ name }) => name === 'turn').length).toBe(15);
    expect(traceEvents.filter(({ name, ph }) => name === 'mode' && ph === 'X').length).toBe(3);
  });

  test('names the conversation of the turn drawn if there are several', async () => {
    const world = fakeWorld();
    const argv = ['run', '--model', 'nano', '--turns', '2', '--conversations', '2', '--gantt', '2'];
    expect(await main(argv, world.deps)).toBe(0);
    expect(world.out()).toContain('turn 2 of random-2, bidirectional: what the first token waited for');
  });

  test('draws the turn that the report is about, not its audit', async () => {
    const world = fakeWorld();
    const argv = [
      ...['run', '--model', 'nano', '--mode', 'bidirectional', '--turns', '2'],
      ...['--gantt', '--audit', '100%', '--json', 'out.json'],
    ];
    expect(await main(argv, world.deps)).toBe(0);
    const { runs } = JSON.parse(world.files.get('out.json')!) as Report;
    const { ttft_ms, audit } = runs[0]!.turns[1]!;
    expect(audit!.other_ttft_ms).toBeGreaterThan(ttft_ms + 1);
    const drawn = /^to the first token +([\d.]+)$/m.exec(world.out())![1];
    expect(Number(drawn)).toBeCloseTo(ttft_ms, 0);
  });

  test.each(['--record', '--trace-out'])(
    'prints and writes the report if the file of %s cannot be written',
    async (option) => {
      const world = fakeWorld();
      const full = () => {
        throw new ConfigError('cannot write big.json: the disk is full; give another path');
      };
      const { writeTextFile, createTextFile } = world.deps;
      const deps: CliDeps = {
        ...world.deps,
        writeTextFile: async (path, content) => (path === 'big.json' ? full() : writeTextFile(path, content)),
        createTextFile: async (path) => ({ ...(await createTextFile(path)), close: async () => full() }),
      };
      expect(await main([...short, option, 'big.json', '--json', 'out.json'], deps)).toBe(2);
      expect(world.err()).toContain('the disk is full');
      expect(JSON.parse(world.files.get('out.json')!)).toMatchObject({ kind: 'run' });
      expect(world.out()).toContain('monolithic');
    },
  );

  test('refuses a turn that does not exist or a file that cannot be written before engines start', async () => {
    for (const [argv, sentence] of [
      [['--gantt', '9'], '--gantt is 9: the conversation has 5 turns; give one of them'],
      [['--gantt', '0'], "--gantt is '0': wanted true, false or the number of a turn; or leave it out"],
      [
        ['--trace-out', '/read-only/t.json'],
        'cannot write /read-only/t.json: it is read-only; give another path',
      ],
    ] as const) {
      const world = fakeWorld();
      expect(await main(['run', '--model', 'nano', ...argv], world.deps)).toBe(2);
      expect(world.err()).toContain(sentence);
      expect(world.clusters).toEqual([]);
    }
  });
});

test.each(['10', '387'])(
  'a context of %s tokens is refused at the start as too short for the shipped conversation',
  async (tokens) => {
    const world = fakeWorld();
    expect(await main(['run', '--max-model-len', tokens], world.deps)).toBe(2);
    expect(world.err()).toBe(
      `kvferry: the conversation has prompts of up to 387 tokens and the context holds ${tokens}: give --max-model-len 388 or more\n`,
    );
    expect(world.clusters).toEqual([]);
  },
);

describe('Ctrl-C', () => {
  test('ends the engines and exits with 130, even if nothing answers', async () => {
    const world = fakeWorld({ hangs: true });
    const running = main(short, world.deps);
    while (world.clusters.length === 0) await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    world.interrupt();
    expect(await running).toBe(130);
    expect(world.clusters[0]?.closed).toBe(1);
    expect(world.exits).toEqual([]);
    expect(world.err()).not.toContain('bug');
    expect(world.err()).toContain('No report: it is written after all turns have been served.\n');
  });

  test('leaves a complete file of what was traced so far', async () => {
    const world = fakeWorld({ hangs: true });
    const running = main([...short, '--mode', 'monolithic', '--trace-out', 'trace.json'], world.deps);
    while (!world.err().includes('monolithic')) await new Promise((resolve) => setImmediate(resolve));
    world.interrupt();
    expect(await running).toBe(130);
    expect(() => JSON.parse(world.files.get('trace.json')!)).not.toThrow();
  });

  test('pressed twice exits at once', async () => {
    const world = fakeWorld({ hangs: true });
    const running = main(short, world.deps);
    while (world.clusters.length === 0) await new Promise((resolve) => setImmediate(resolve));
    world.interrupt();
    world.interrupt();
    expect(world.exits).toEqual([130]);
    expect(await running).toBe(130);
  });
});

test('kvferry run ends its engines silently and exits with 141 if its output is no longer read', async () => {
  const world = fakeWorld({ hangs: true });
  const running = main(short, world.deps);
  while (world.clusters.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const said = world.err();
  world.unread();
  expect(await running).toBe(141);
  expect(world.clusters[0]?.closed).toBe(1);
  expect(world.err()).toBe(said);
});

const storeOnly = ['--store', '1MiB', '--kv-transfer-config', '{"kv_connector":"OffloadingConnector"}'];

test.each([
  [['--max-tokens', '5'], '--max-tokens has no effect on a generated conversation'],
  [
    ['--mode', 'unidirectional', '--audit', '20%'],
    '--audit has no effect if nothing is pulled: add bidirectional',
  ],
  ...['--threshold 9', '--ttl 60', '--lease 9', '--handover streamed', '--no-token-check', '--audit 20%'].map(
    (option): [string[], string] => [
      [...storeOnly, ...option.split(' ')],
      `${option.split(' ')[0]} has no effect with this --kv-transfer-config, whose connector moves KV through`,
    ],
  ),
  [
    [...storeOnly, '--pull-policy', 'cost-aware'],
    '--pull-policy has no effect with this --kv-transfer-config, whose connector moves KV through the store only',
  ],
])('kvferry run refuses options that it would not use: %j', async (options, sentence) => {
  const world = fakeWorld();
  expect(await main([...short, ...options], world.deps)).toBe(2);
  expect(world.err()).toContain(sentence);
  expect(world.clusters).toHaveLength(0);
});

test('kvferry run takes one policy or a mix, but not several policies', async () => {
  const world = fakeWorld();
  expect(await main([...short, '--routing', 'random,least-request'], world.deps)).toBe(2);
  expect(world.err()).toContain('--routing names 2 policies (random, least-request): give one');
  expect(world.clusters).toHaveLength(0);
  expect(await main([...short, '--routing', 'random:1,least-request:2'], fakeWorld().deps)).toBe(0);
});
