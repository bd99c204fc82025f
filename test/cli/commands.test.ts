import { describe, expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { benchSpec } from '../../src/cli/commands/bench.ts';
import { calibrateSpec } from '../../src/cli/commands/calibrate.ts';
import { exportSpec } from '../../src/cli/commands/export.ts';
import { planSpec } from '../../src/cli/commands/plan.ts';
import { replaySpec } from '../../src/cli/commands/replay.ts';
import { runSpec } from '../../src/cli/commands/run.ts';
import { serveSpec } from '../../src/cli/commands/serve.ts';
import { simulateSpec } from '../../src/cli/commands/simulate.ts';
import { sweepSpec } from '../../src/cli/commands/sweep.ts';
import { verifySpec } from '../../src/cli/commands/verify.ts';
import type { AdapterFinding } from '../../src/cli/doctor/doctor-types.ts';
import type { CommandSpec } from '../../src/cli/options/arguments.ts';
import { readSettings } from '../../src/cli/options/settings.ts';
import { parseRunConfig } from '../../src/config/run.ts';
import { AdapterError, InternalError } from '../../src/errors.ts';
import type { CheckProvider } from '../../src/lab/verify/types.ts';
import { verifyReportSchema } from '../../src/measure/schemas/verify-report.ts';
import { fakeWorld, widest } from './fake.ts';

async function complaint(argv: string[], files: Record<string, string> = {}): Promise<string> {
  const world = fakeWorld({}, files);
  expect(await main(argv, world.deps)).toBe(2);
  expect(world.out()).toBe('');
  const text = world.err();
  expect(text.trimEnd().split('\n')).toHaveLength(1);
  return text.trimEnd();
}

test.each([
  ['simulate', simulateSpec, undefined],
  ['bench', benchSpec, undefined],
  ['export', exportSpec, undefined],
  ['sweep', sweepSpec, [128]],
  ['plan', planSpec, [128]],
])("the threshold in --kv-transfer-config replaces %s's own default", async (_, spec, thresholds) => {
  const { deps } = fakeWorld();
  const kvTransferConfig = '{"kv_connector_extra_config":{"kv_recompute_threshold":128}}';
  const settings = { kvTransferConfig, preset: 'pr32553', scale: '1/16' };
  const { config, lists } = await readSettings(settings, null, deps, spec);
  expect(config.threshold).toBe(128);
  expect(lists.threshold).toEqual(thresholds);
  const both = readSettings({ ...settings, threshold: '5' }, null, deps, spec);
  await expect(both).rejects.toThrow('--threshold is 5 and kv_recompute_threshold');
});

test("--scale divides a plan's own thresholds", async () => {
  const { deps } = fakeWorld();
  const thresholds = async (settings: Record<string, string>) =>
    (await readSettings(settings, null, deps, planSpec)).lists.threshold;
  expect(await thresholds({})).toEqual([64, 1024]);
  expect(await thresholds({ scale: '1/16' })).toEqual([4, 64]);
  expect(await thresholds({ scale: '1/16', threshold: '64' })).toEqual([64]);
});

describe('the shipped conversation', () => {
  const read = async (spec: CommandSpec, settings: Record<string, string> = {}, args: string[] = []) =>
    (await readSettings(settings, null, fakeWorld().deps, spec, args)).config;
  const own = { conversation: 'shipped', threshold: 32, prefixCaching: false };
  const none = { conversation: null, prefixCaching: true };

  test('is the default for model recall of commands that serve it, with its settings', async () => {
    expect(await read(runSpec)).toMatchObject(own);
    expect(await read(exportSpec, {}, ['vllm'])).toMatchObject(own);
    expect(await read(runSpec, { model: 'nano', conversation: 'shipped' })).toMatchObject(own);
    expect(await read(runSpec, { threshold: '64' })).toMatchObject({ ...own, threshold: 64 });
    expect(await read(runSpec, { prefixCaching: 'true' })).toMatchObject({ ...own, prefixCaching: true });
    expect(await read(runSpec, { turns: '3' })).toMatchObject({ ...none, threshold: 64 });
    expect(await read(runSpec, { model: 'nano' })).toMatchObject({ ...none, threshold: 64 });
    const another = { ...none, conversation: 'mine.json', threshold: 64 };
    expect(await read(runSpec, { conversation: 'mine.json' })).toMatchObject(another);
  });

  test('sets nothing where something else is served', async () => {
    expect(await read(exportSpec, { preset: 'pr32553' }, ['vllm'])).toMatchObject({ ...none, threshold: 64 });
    expect(await read(exportSpec, {}, ['llm-d'])).toMatchObject({ ...none, threshold: 64 });
    for (const spec of [calibrateSpec, serveSpec, verifySpec])
      expect(await read(spec)).toMatchObject({ ...none, threshold: 64 });
    const traced = { model: 'recall', trace: 't.jsonl' };
    expect(await read(replaySpec, traced)).toMatchObject({ ...none, threshold: 64 });
    expect(await read(simulateSpec, traced)).toMatchObject({ ...none, threshold: 64 });
    for (const spec of [benchSpec, planSpec, simulateSpec, sweepSpec])
      expect(await read(spec, { model: 'recall' })).toMatchObject(none);
  });
});

describe('the command line', () => {
  test.each([
    [
      ['rn'],
      "kvferry: there is no command 'rn': wanted one of run, serve, bench, replay, sweep, simulate, plan, calibrate, report, trace, verify, doctor, export, store (did you mean run?)",
    ],
    [['run', '--treshold', '5'], 'kvferry: there is no option --treshold (did you mean --threshold?)'],
    // Close to --conversations, which simulate does not take.
    [
      ['simulate', '--num-conversations', '5'],
      'kvferry: there is no option --num-conversations; --help lists them',
    ],
    [['run', '--zzzzzz'], 'kvferry: there is no option --zzzzzz; --help lists them'],
    [['run', '-x'], 'kvferry: there is no option -x; --help lists them'],
    [
      ['run', '--threshold', '-5'],
      "kvferry: --threshold is '-5': wanted a whole number of tokens, 0 or more; or leave it out for 64, or 32 with the shipped conversation",
    ],
    [['run', '--threshold'], 'kvferry: --threshold has no value: wanted --threshold TOKENS'],
    [['run', '--model'], 'kvferry: --model has no value: wanted --model PRESET|DIR'],
    [['run', '--seed', '1', '--seed', '2'], 'kvferry: --seed is given more than once: give it once'],
    [['run', 'now'], "kvferry: 'now' is one argument too many for kvferry run: see kvferry run --help"],
    [
      ['doctor', '--turns', '3'],
      'kvferry: --turns is an option of kvferry run and export, not of doctor: leave it out',
    ],
    [['run', '--config', 'gone.json'], 'kvferry: cannot read gone.json: there is no such file'],
    [
      ['run', '--json', '/read-only/report.json'],
      'kvferry: cannot write /read-only/report.json: it is read-only; give another path',
    ],
    [
      ['run', '--kv-transfer-config', '{"kv_connector":"Foo"}'],
      /kv_connector in --kv-transfer-config is 'Foo': /,
    ],
    [['run', '--model', './no/such'], /there is no directory '.\/no\/such'/],
    [['run', '--model', 'nanno'], /there is no model 'nanno'.*did you mean 'nano'\?/],
    [
      ['export'],
      'kvferry: nothing to export is given: wanted tokenizer DIR, config, vllm, or one of aibrix, llm-d, dynamo, sglang',
    ],
    [
      ['export', 'weights'],
      "kvferry: there is no 'weights' to export: wanted tokenizer DIR, config, vllm, or one of aibrix, llm-d, dynamo, sglang",
    ],
    [['export', 'tokenizer'], 'kvferry: export tokenizer has no directory: wanted export tokenizer DIR'],
    [['run', '--link', '10gbee'], /link '10gbee'.*did you mean 10gbe\?/],
    [
      [
        'run',
        '--threshold',
        '5',
        '--kv-transfer-config',
        '{"kv_connector_extra_config":{"kv_recompute_threshold":64}}',
      ],
      'kvferry: --threshold is 5 and kv_recompute_threshold in --kv-transfer-config is 64: give one of them',
    ],
    [
      ['run', '--model', 'nano', '--turns', '100', '--output-tokens', '999'],
      /grows to 106364 tokens and the context holds 8192/,
    ],
    [['run', '--model', 'nano', '--user-tokens', '1e10'], /grows to 50000000704 tokens and the context/],
    [
      ['run', '--model', 'nano', '--conversations', '1e6'],
      /1000000 conversations need 384000000 generated tokens.*lower --conversations/,
    ],
    [
      ['run', '--model', 'nano', '--p-blocks', '3'],
      /--p-blocks is 3 blocks of 16 tokens.*grows to 1024 tokens: give 65 or more/,
    ],
    [['run', '--p-blocks', '25'], /--p-blocks is 25 blocks of 16 tokens.*up to 387 tokens: give 26 or more/],
    [['run', '--d-blocks', '20'], /--d-blocks is 20 blocks of 16 tokens.*up to 387 tokens: give 34 or more/],
  ])('refuses %j with one sentence', async (argv, expected) => {
    expect(await complaint(argv)).toMatch(
      typeof expected === 'string' ? new RegExp(`^${literally(expected)}$`) : expected,
    );
  });

  test('takes settings from a config file, lets options override them, and names the file in errors', async () => {
    const files = {
      'k.json': '{"model":"nano","turns":2,"threshold":7,"userTokens":9}',
      'bad.json': '{"treshold":1}',
    };
    const world = fakeWorld({}, files);
    expect(await main(['export', 'config', '--config', 'k.json', '--threshold', '8'], world.deps)).toBe(0);
    expect(JSON.parse(world.out())).toMatchObject({ model: 'nano', turns: 2, threshold: 8, userTokens: 9 });
    expect(await complaint(['run', '--config', 'bad.json'], files)).toBe(
      "kvferry: there is no setting 'treshold' in bad.json: did you mean --threshold?",
    );
    expect(await complaint(['run', '--config', 'x.json'], { 'x.json': '{"threshold":-1}' })).toMatch(
      /^kvferry: 'threshold' in x.json is -1: wanted/,
    );
    expect(await complaint(['run', '--config', 'x.json'], { 'x.json': '{' })).toMatch(
      /^kvferry: x.json is not JSON/,
    );
    expect(await complaint(['run', '--config', 'x.json'], { 'x.json': '[]' })).toMatch(
      /^kvferry: x.json does not contain an object/,
    );
  });

  test('refuses a conversation that ends with the assistant', async () => {
    const talk = JSON.stringify([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ]);
    expect(await complaint(['run', '--conversation', 'talk.json'], { 'talk.json': talk })).toMatch(
      /talk.json ends with the assistant/,
    );
  });

  test('keeps option values as they are written', async () => {
    const world = fakeWorld();
    const odd = ['--adapter', '007', '--json=1e3', '--no-prefix-caching', '--link', '10e6'];
    expect(await main(['export', 'config', ...odd], world.deps)).toBe(0);
    expect(JSON.parse(world.out())).toMatchObject({
      adapter: '007',
      json: '1e3',
      prefixCaching: false,
      link: '10e6',
    });
  });

  test('can turn on a switch that the shipped conversation turns off', async () => {
    const world = fakeWorld();
    expect(await main(['export', 'config', '--prefix-caching'], world.deps)).toBe(0);
    expect(JSON.parse(world.out())).toMatchObject({
      conversation: 'shipped',
      prefixCaching: true,
      tokenCheck: true,
    });
  });

  test('refuses --json for export tokenizer, which would not write it', async () => {
    const world = fakeWorld();
    expect(await main(['export', 'tokenizer', 'dir', '--json', 'out.json'], world.deps)).toBe(2);
    expect(world.err()).toContain('--json has no effect on export tokenizer');
  });

  test('export config with --json FILE prints the setting and says that it writes no file', async () => {
    const world = fakeWorld();
    expect(await main(['export', 'config', '--json', 'x.json'], world.deps)).toBe(0);
    expect(JSON.parse(world.out())).toMatchObject({ json: 'x.json' });
    expect(world.err()).toBe(
      'export config prints to stdout, --json x.json as one of the settings: use > FILE for a file\n',
    );
  });

  test('prints a valid config file for export config', async () => {
    const world = fakeWorld();
    expect(await main(['export', 'config', '--model', 'tiny', '--ttl', '5'], world.deps)).toBe(0);
    expect(parseRunConfig(JSON.parse(world.out()))).toEqual(JSON.parse(world.out()));
  });

  test.each([
    'run --turns 2',
    'bench --preset pr32553 --scale 1/64 --max-num-requests 8 --rounds 1 --budget 5m',
    'sweep --context 32,64',
    'simulate --preset pr32553 --scale 1/64 --max-num-requests 8',
    'plan --preset pr32553 --scale 1/64 --slo-ttft 1s --rate 4 --sample 40 --max-engines 2 --jobs 1',
  ])('accepts what export config prints as the config file of: %s', async (argv) => {
    const printed = fakeWorld();
    expect(await main(['export', 'config', '--model', 'tiny'], printed.deps)).toBe(0);
    const world = fakeWorld({}, { 'k.json': printed.out() });
    const code = await main([...argv.split(' '), '--config', 'k.json'], world.deps);
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
  });

  test.each(['toString', 'constructor', '__proto__'])('refuses a config file that has %s', async (key) => {
    const world = fakeWorld({}, { 'k.json': `{"${key}": null}` });
    expect(await main(['export', 'config', '--config', 'k.json'], world.deps)).toBe(2);
    expect(world.err()).toContain(`there is no setting '${key}' in k.json`);
  });

  test.each([
    [['--help']],
    [['run', '--help']],
    [['verify', '-h']],
    [['doctor', '--help']],
    [['export', '--help']],
  ])('prints help for %j that fits 80 columns and names a command', async (argv) => {
    const world = fakeWorld();
    expect(await main(argv, world.deps)).toBe(0);
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    expect(world.out()).toMatch(/kvferry (run|verify|doctor|export)/);
  });

  test('prints help for run that names options with their values', async () => {
    const world = fakeWorld();
    await main(['run', '--help'], world.deps);
    for (const option of [
      '--mode <MODES>',
      '--threshold <TOKENS>',
      '--no-prefix-caching',
      '--no-token-check',
      '--json [FILE]',
      '--config <FILE>',
    ]) {
      expect(world.out()).toContain(option);
    }
  });

  test('prints help and exits with 2 if there is no command, and the version for --version', async () => {
    const none = fakeWorld();
    expect(await main([], none.deps)).toBe(2);
    expect(none.err()).toContain('Usage: kvferry <command>');
    const version = fakeWorld();
    expect(await main(['--version'], version.deps)).toBe(0);
    expect(version.out()).toBe('kvferry 1.2.3\n');
  });

  test('shows stacks with --debug only', async () => {
    const plain = fakeWorld();
    await main(['run', '--threshold', 'x'], plain.deps);
    expect(plain.err()).not.toContain('    at ');
    const debug = fakeWorld();
    await main(['run', '--threshold', 'x', '--debug'], debug.deps);
    expect(debug.err()).toContain('    at ');
  });
});

const literally = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

describe('kvferry export tokenizer', () => {
  test('writes the files and says so', async () => {
    const world = fakeWorld();
    expect(await main(['export', 'tokenizer', 'out', '--model', 'nano'], world.deps)).toBe(0);
    expect(world.directories).toEqual(['out']);
    expect(world.files.get('out/tokenizer.json')).toBe('{"model":"nano"}');
    expect(world.out()).toBe('wrote tokenizer.json, tokenizer_config.json of nano to out\n');
  });
});

describe('kvferry doctor', () => {
  test('reports adapters, kernels, speeds, memory and advice for a machine that works', async () => {
    const world = fakeWorld();
    expect(await main(['doctor'], world.deps)).toBe(0);
    for (const text of [
      'Adapters',
      'none: not installed',
      'features',
      'kernels   subgroup variants: 4 lanes',
      'P→shared→D',
      '1.25',
      'Memory',
      'Advice',
      'lavapipe is 3 to 4 times faster',
    ]) {
      expect(world.out()).toContain(text);
    }
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    expect(world.clusters[0]?.closed).toBe(1);
  });

  test('says what the driver lacks if Vulkan does not find an NVIDIA card, as in a bare container', async () => {
    const world = fakeWorld();
    await main(['doctor'], world.deps);
    expect(world.out()).not.toContain('NVIDIA');
    world.deps.doctor.nvidia = () => true;
    await main(['doctor'], world.deps);
    expect(world.out()).toContain('VK_DRIVER_FILES');
    expect(widest(world.out())).toBeLessThanOrEqual(80);
  });

  test('does not ask for software adapters if there is a GPU, as on a Mac', async () => {
    const world = fakeWorld();
    const [, { adapter }] = (await world.deps.doctor.adapters()) as [unknown, AdapterFinding];
    const none = (driver: string) => ({ driver, adapter: null, error: 'not installed' });
    const card = { driver: 'system', adapter: { ...adapter!, name: 'a card', software: false }, error: null };
    world.deps.doctor.adapters = async () => [card, none('lavapipe'), none('swiftshader')];
    expect(await main(['doctor'], world.deps)).toBe(0);
    expect(world.out()).toContain('Nothing is missing');
    expect(world.out()).not.toContain('npm ci');
  });

  test.each([
    ['metal', 'needs one on macOS'],
    ['d3d12', "install its maker's driver"],
  ])('speaks of no Vulkan driver where Dawn uses %s', async (backend, advice) => {
    const world = fakeWorld({ adapterFails: new AdapterError('Dawn accepts no adapter') });
    const adapters = ['system', 'lavapipe', 'swiftshader'].map((driver) => ({
      ...{ driver, adapter: null, error: 'none' },
    }));
    Object.assign(world.deps.doctor, { backend, adapters: async () => adapters });
    expect(await main(['doctor'], world.deps)).toBe(1);
    const told = world.out().replaceAll(/\s+/g, ' ');
    expect(told).toContain(advice);
    expect(told).not.toMatch(/Vulkan|vulkaninfo|Mesa|npm/);
  });

  test('says why no engine can start and what to do, and exits with 1', async () => {
    const world = fakeWorld({ adapterFails: new AdapterError('Dawn accepts no adapter') });
    expect(await main(['doctor', '--adapter', 'gpu', '--json', 'd.json'], world.deps)).toBe(1);
    expect(world.out()).toContain('No engine can start: Dawn accepts no adapter.');
    expect(world.out()).toContain('Leave --adapter out');
    expect(world.out()).toContain('No engine can start with --adapter gpu.');
    expect(JSON.parse(world.files.get('d.json') ?? '')).toMatchObject({
      info: null,
      error: 'Dawn accepts no adapter',
    });
  });
});

describe('kvferry verify', () => {
  const passing =
    (group: 'a' | 'c' | 'e'): CheckProvider =>
    async () => [{ group, name: 'a check', run: async () => ({ ok: true, detail: '12 numbers compared' }) }];

  test('passes if every group has checks and they pass', async () => {
    const world = fakeWorld();
    world.deps.verify = { kernels: passing('a'), pulledBlocks: passing('c'), fixture: passing('e') };
    expect(
      await main(['verify', '--model', 'nano', '--json', 'v.json', '--fixture', 'dir'], world.deps),
    ).toBe(0);
    expect(world.out()).toContain('22 checks passed, 0 failed, 0 skipped');
    expect(widest(world.out())).toBeLessThanOrEqual(80);
    const report = verifyReportSchema.parse(JSON.parse(world.files.get('v.json') ?? ''));
    expect(report).toMatchObject({ kind: 'verify', ok: true, model: 'nano' });
    expect(report.checks).toHaveLength(22);
    // Each trial has its own cluster, and every one is closed.
    expect(world.clusters).toHaveLength(19);
    for (const { closed } of world.clusters) expect(closed).toBe(1);
  });

  test('reports what it found so far when interrupted', async () => {
    const world = fakeWorld();
    const checks = [
      { name: 'good', ok: true },
      { name: 'bad', ok: false },
      { name: 'endless', ok: null },
    ];
    const kernels: CheckProvider = async () =>
      checks.map(({ name, ok }) => ({
        ...{ group: 'a', name },
        async run(_, signal) {
          if (ok === null) world.interrupt();
          signal.throwIfAborted();
          return { ok: ok === true, detail: '' };
        },
      }));
    world.deps.verify = { kernels, pulledBlocks: passing('c'), fixture: passing('e') };
    expect(await main(['verify', '--model', 'nano'], world.deps)).toBe(130);
    expect(world.err()).toContain('No verdict: 2 checks finished before the interrupt. FAILED: bad.\n');
  });

  test('reports how far it came when interrupted during faults', async () => {
    const world = fakeWorld();
    world.deps.backend.startCluster = async () => {
      world.interrupt();
      throw new Error('interrupted');
    };
    expect(await main(['verify', '--faults', '9'], world.deps)).toBe(130);
    expect(world.err()).toContain('No verdict: 0 faults in 0 episodes had finished, with 0 rules broken.\n');
  });

  test('refuses --fault-picks without --faults or out of range', async () => {
    const world = fakeWorld();
    expect(await main(['verify', '--model', 'nano', '--fault-picks', '1,2'], world.deps)).toBe(2);
    expect(world.err()).toContain('--fault-picks is given without --faults');
    expect(await main(['verify', '--faults', '1', '--fault-picks', '5'], world.deps)).toBe(2);
    expect(world.err()).toContain('wanted numbers from 1 to 4');
  });

  test('fails if a group has no checks, and checks a fixture only on request', async () => {
    const world = fakeWorld();
    expect(await main(['verify', '--model', 'nano'], world.deps)).toBe(1);
    expect(world.out()).toContain('there was nothing to check');
    expect(world.out()).toContain('give --fixture DIR');
  });

  test('fails if a mode differs from the others', async () => {
    const world = fakeWorld({ wrong: { mode: 'unidirectional', what: 'logits' } });
    world.deps.verify = { kernels: passing('a'), pulledBlocks: passing('c'), fixture: passing('e') };
    expect(await main(['verify', '--model', 'nano'], world.deps)).toBe(1);
    expect(world.out()).toMatch(/FAILED {2}greedy, P keeps nothing/);
    expect(world.out()).toContain('unidirectional differs from monolithic');
  });

  test('fails if injected damage goes unnoticed', async () => {
    const world = fakeWorld({ faultsVanish: true });
    world.deps.verify = { kernels: passing('a'), pulledBlocks: passing('c'), fixture: passing('e') };
    expect(await main(['verify', '--model', 'nano'], world.deps)).toBe(1);
    expect(world.out()).toContain('the damage was not noticed');
  });

  test('counts a check that throws as failed, and runs the others', async () => {
    const world = fakeWorld({ integrityFails: new InternalError('block 3 is lost') });
    world.deps.verify = { kernels: passing('a'), pulledBlocks: passing('c'), fixture: passing('e') };
    expect(await main(['verify', '--model', 'nano'], world.deps)).toBe(1);
    expect(world.out()).toContain('block 3 is lost');
    expect(world.out()).toContain('2 checks passed, 19 failed, 1 skipped');
  });

  test('writes its checks as a page, Markdown and JUnit', async () => {
    const world = fakeWorld({ wrong: { mode: 'unidirectional', what: 'logits' } });
    world.deps.verify = { kernels: passing('a'), pulledBlocks: passing('c'), fixture: passing('e') };
    const files = ['--html', 'v.html', '--markdown', 'v.md', '--junit', 'v.xml'];
    expect(await main(['verify', '--model', 'nano', ...files], world.deps)).toBe(1);
    expect(world.files.get('v.md')).toMatch(
      /\| greedy, P keeps nothing, every turn pulls \|.*\*\*✗ failed\*\* \|/,
    );
    expect(world.files.get('v.html')).toContain('1 skipped</h1>');
    const xml = world.files.get('v.xml')!;
    expect(xml).toMatch(/<failure message="[^"]*unidirectional differs from monolithic/);
    expect(xml).toContain('<skipped message="give --fixture DIR to check one"/>');
    expect(xml).toMatch(/skipped="1"/);
  });
});

describe('a fleet', () => {
  const fleet = JSON.stringify({ rolesets: [{ prefill: 2, decode: [{ blocks: 40 }] }, { both: 1 }] });

  test('can be given by counts, which the start-up message names', async () => {
    const world = fakeWorld();
    expect(await main(['run', '--model', 'nano', '--prefill', '2', '--decode', '3'], world.deps)).toBe(0);
    expect(world.err()).toMatch(/starting 2 P and 3 D with nano on fake \(auto\): [\d.]+ MiB at least/);
    expect(await main(['run', '--model', 'nano', '--store', '1GiB'], world.deps)).toBe(0);
    expect(world.err()).toMatch(/starting P and D .*: 1\.\d+ GiB at least, 1 GiB of it for the store/);
    const { engines } = world.clusters[0]!.info;
    expect(engines.map(({ engineId }) => engineId)).toEqual([
      'prefill-0',
      'prefill-1',
      'decode-0',
      'decode-1',
      'decode-2',
    ]);
    expect(world.out()).toMatch(/prefill-1 weights/);
    expect(widest(world.out())).toBeLessThanOrEqual(80);
  });

  test('can be given in a file or within a config file', async () => {
    for (const args of [
      ['--fleet', 'fleet.json', '--mode-of-fleet', 'replica'],
      ['--config', 'config.json'],
    ]) {
      const config = JSON.stringify({ fleet: JSON.parse(fleet), modeOfFleet: 'replica' });
      const world = fakeWorld({}, { 'fleet.json': fleet, 'config.json': config });
      expect(await main(['doctor', '--model', 'nano', ...args], world.deps)).toBe(0);
      expect(world.err()).toContain('starting 2 P, 1 D and 1 that does both with nano');
      const { options } = world.clusters[0]!;
      expect(options.placement).toBe('replica');
      expect(options.fleet!.seats.map(({ name, own }) => [name, own])).toEqual([
        ['prefill-0', {}],
        ['prefill-1', {}],
        ['decode-0', { numBlocks: 40 }],
        ['both-0', {}],
      ]);
    }
  });

  test.each([
    [['--fleet', 'none.json'], 'cannot read none.json'],
    [['--fleet', 'text'], 'text is not JSON'],
    [['--fleet', 'fleet.json', '--prefill', '3'], '--fleet and --prefill are both given'],
    [['--fleet', 'half.json'], 'roleset roleset-0 has 1 P and no D'],
    [['--fleet', 'typo.json'], "--fleet has an unknown field 'rolests'"],
    [
      ['--fleet', 'short.json', '--turns', '3'],
      'the prompt of turn 3 has 512 tokens, and no roleset of --fleet takes it (roleset-0 0 to 511, roleset-1 513 to any)',
    ],
    [['--prefill', '0'], "--prefill is '0': wanted a whole number of engines from 1 to 1024"],
    [['--mode-of-fleet', 'poled'], 'wanted one of pooled, replica (did you mean pooled?)'],
  ])('given by %j is refused with one sentence before anything starts', async (args, expected) => {
    const files = {
      'fleet.json': fleet,
      text: 'two of each',
      'half.json': '{"rolesets":[{"prefill":1}]}',
      'short.json':
        '{"rolesets":[{"both":1,"promptTokens":{"max":511}},{"both":1,"promptTokens":{"min":513}}]}',
      'typo.json': '{"rolests":[]}',
    };
    const world = fakeWorld({}, files);
    expect(await main(['run', '--model', 'nano', ...args], world.deps)).toBe(2);
    expect(world.err()).toContain(expected);
    expect(world.clusters).toHaveLength(0);
  });

  test('is refused by commands that measure one P and one D', async () => {
    const world = fakeWorld();
    expect(await main(['sweep', '--prefill', '2'], world.deps)).toBe(2);
    expect(world.err()).toContain('--prefill is an option of kvferry run, serve, ');
  });
});
