import { expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { fakeWorld } from './fake.ts';

const RESULT = {
  conversationId: 'a',
  turn: 2,
  ttftMs: 30,
  outputTokenIds: [1],
  prompt: { localHitTokens: 64, pulledTokens: 0, computedTokens: 6 },
  transfer: { pToD: null, dToP: null },
  routed: {
    policy: 'random',
    way: 'pull',
    prefill: 'prefill-0',
    decode: 'decode-0',
    load: null,
    why: 'drawn',
    predictedTtftMs: null,
    startMs: 0,
    endMs: 1,
    candidates: [],
  },
} as unknown as TurnResult;

test('serve prints its URLs and a command to try, and exits with 0 on a signal', async () => {
  const world = fakeWorld();
  const ended = main(
    ['serve', '--model', 'nano', '--served-model-name', 'a, b', '--grace', '3', '--temperature', '0.5'],
    world.deps,
  );
  await expect.poll(() => world.out()).toContain('curl http://h:3/v1/chat/completions');
  const { options, server } = world.served[0]!;
  expect(options).toMatchObject({ model: 'nano', mode: 'bidirectional' });
  expect(server).toMatchObject({
    host: '127.0.0.1',
    ports: { router: 8000, prefill: [8100], decode: [8200], admin: 8300 },
    ...{ adminHost: '127.0.0.1', adminKey: null, adminOnClientPorts: false },
    servedModelNames: ['a', 'b'],
    maxQueue: 256,
    apiKey: null,
    corsOrigins: [],
    allowedHosts: [],
    streamingKvParams: true,
    writeTimeoutMs: 60_000,
    faultEndpoint: false,
  });
  expect(server.defaults).toMatchObject({ temperature: 0.5, maxTokens: 128 });
  world.interrupt();
  expect(await ended).toBe(0);
  expect(world.stopped).toEqual([3000]);
});

test('serve also ends on a signal that comes while it prints its addresses', async () => {
  const world = fakeWorld();
  world.interruptAt('Press Ctrl-C to stop');
  expect(await main(['serve', '--model', 'nano', '--json', 'urls.json'], world.deps)).toBe(0);
  expect(world.stopped).toHaveLength(1);
});

test('serve compares the checksums of chunks only with --fault-endpoint', async () => {
  for (const given of [[], ['--fault-endpoint']]) {
    const world = fakeWorld();
    const ended = main(['serve', '--model', 'nano', ...given], world.deps);
    await expect.poll(() => world.out()).toContain('Press Ctrl-C to stop');
    expect(world.served[0]!.options.checksum).toBe(given.length > 0);
    world.interrupt();
    expect(await ended).toBe(0);
  }
});

test('serve with --log-format json writes only JSON lines to stderr, from the start on', async () => {
  const world = fakeWorld();
  const json = ['--log-format', 'json', '--explain-routing', '--pull-policy', 'cost-aware'];
  const ended = main(['serve', '--model', 'nano', ...json], world.deps);
  await expect.poll(() => world.out()).toContain('Press Ctrl-C to stop');
  world.served[0]!.server.onDecision!({ kind: 'routing', result: RESULT });
  const events = world
    .err()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events[0]).toMatchObject({
    event: 'note',
    message: expect.stringContaining('starting P and D with nano'),
  });
  expect(events.at(-1)).toMatchObject({ event: 'routing', pulled_tokens: 0, stored_tokens: 0 });
  world.interrupt();
  expect(await ended).toBe(0);
});

test.each([
  [
    { 'prefill-0': 'http://h:5', 'prefill-10': 'http://h:6', 'decode-0': 'http://h:7' },
    'prefill-0    http://h:5\nprefill-10   http://h:6\ndecode-0     http://h:7\n',
  ],
  [{ 'both-0': 'http://h:5', 'both-1': 'http://h:6' }, 'both-0   http://h:5\nboth-1   http://h:6\n'],
])('serve prints each engine of %j on its own line, with URLs aligned', async (engineUrls, lines) => {
  const world = fakeWorld();
  const start = world.deps.servers.start;
  world.deps.servers.start = async (...args) => ({ ...(await start(...args)), engineUrls });
  const ended = main(['serve', '--model', 'nano'], world.deps);
  await expect.poll(() => world.out()).toContain('Press Ctrl-C to stop');
  expect(world.out()).toContain(lines);
  world.interrupt();
  expect(await ended).toBe(0);
});

test("serve uses vLLM's defaults for recall, not those of the shipped conversation", async () => {
  const world = fakeWorld();
  const ended = main(['serve', '--json'], world.deps);
  await expect.poll(() => world.out()).toContain('"router"');
  expect(JSON.parse(world.out())).toEqual({
    model: 'recall',
    urls: { prefill: 'http://h:1', decode: 'http://h:2', router: 'http://h:3', admin: 'http://h:4' },
    engines: { 'prefill-0': 'http://h:1', 'decode-0': 'http://h:2' },
  });
  const { options } = world.served[0]!;
  expect(options.prefill.enablePrefixCaching).toBe(true);
  expect(options.connector.nixl.recomputeThreshold).toBe(64);
  world.interrupt();
  expect(await ended).toBe(0);
});

test('serve samples block lifetimes only with --kv-cache-metrics, by default of one block in 100', async () => {
  for (const [args, sample] of [
    [[], null],
    [['--kv-cache-metrics'], 0.01],
    [['--kv-cache-metrics', '--kv-cache-metrics-sample', '1'], 1],
  ] as const) {
    const world = fakeWorld();
    const ended = main(['serve', '--model', 'nano', ...args], world.deps);
    await expect.poll(() => world.out()).toContain('router   http://h:3');
    expect(world.served[0]!.options.kvCacheMetricsSample).toBe(sample);
    world.interrupt();
    expect(await ended).toBe(0);
  }
  const world = fakeWorld();
  const wrong = ['--kv-cache-metrics', '--kv-cache-metrics-sample', '0'];
  expect(await main(['serve', '--model', 'nano', ...wrong], world.deps)).toBe(2);
  expect(world.err()).toContain('wanted a share above 0 and up to 1');
});

test('serve with the cost-aware policy measures costs before it opens ports', async () => {
  const world = fakeWorld();
  const ended = main(['serve', '--model', 'nano', '--pull-policy', 'cost-aware'], world.deps);
  await expect.poll(() => world.out()).toContain('router   http://h:3');
  expect(world.err()).toContain('a quick calibration first');
  expect(world.clusters[0]!.settings).toMatchObject({ mode: 'bidirectional', link: null });
  expect(world.clusters[0]!.settings.connector.nixl.costProfile).toMatchObject({ model: 'nano' });
  world.interrupt();
  expect(await ended).toBe(0);
});

test('serve refuses a cost profile that it would not use before anything starts', async () => {
  const world = fakeWorld({}, { 'c.json': '{}' });
  expect(await main(['serve', '--model', 'nano', '--cost-profile', 'c.json'], world.deps)).toBe(2);
  expect(world.err()).toContain('--cost-profile is given and --pull-policy is threshold');
  expect(world.clusters).toHaveLength(0);
});

test.each([
  [[], { apiKey: 'from-api-env', adminKey: 'from-admin-env' }],
  [['--api-key', 'given'], { apiKey: 'given', adminKey: 'from-admin-env' }],
  [['--admin-key', 'given'], { apiKey: 'from-api-env', adminKey: 'given' }],
])(
  'serve takes keys from the environment unless options give them (%j), and prints none',
  async (more, expected) => {
    const world = fakeWorld();
    const variables: Record<string, string> = {
      KVFERRY_API_KEY: 'from-api-env',
      KVFERRY_ADMIN_KEY: 'from-admin-env',
    };
    world.deps.environment = (name) => variables[name] ?? null;
    const ended = main(['serve', '--model', 'nano', ...more], world.deps);
    await expect.poll(() => world.out()).toContain('curl http://h:3');
    expect(world.out()).toContain("'Authorization: Bearer '$KEY");
    expect(world.served[0]!.server).toMatchObject(expected);
    world.interrupt();
    expect(await ended).toBe(0);
    for (const key of [...Object.values(variables), 'given'])
      expect(world.out() + world.err()).not.toContain(key);
  },
);

test('serve takes an empty variable as no key', async () => {
  const world = fakeWorld();
  world.deps.environment = () => '';
  const ended = main(['serve', '--model', 'nano'], world.deps);
  await expect.poll(() => world.out()).toContain('curl http://h:3');
  expect(world.served[0]!.server).toMatchObject({ apiKey: null, adminKey: null });
  world.interrupt();
  expect(await ended).toBe(0);
});

test('serve refuses a key that is not text without printing it', async () => {
  const world = fakeWorld({}, { 'k.json': JSON.stringify({ adminKey: ['hush-hush'] }) });
  expect(await main(['serve', '--config', 'k.json'], world.deps)).toBe(2);
  expect(world.err()).toContain("'adminKey' in k.json is not usable: wanted a key");
  expect(world.err()).not.toContain('hush-hush');
});

test('export prints no keys', async () => {
  for (const what of ['config', 'vllm']) {
    const world = fakeWorld({}, { 'k.json': JSON.stringify({ apiKey: 'hush-1', adminKey: 'hush-2' }) });
    expect(await main(['export', what, '--config', 'k.json'], world.deps)).toBe(0);
    expect(world.out() + world.err()).not.toContain('hush');
  }
});

test("serve applies the autoscaler's rule and bounds, and the drain policy for engines that leave", async () => {
  const world = fakeWorld({}, { 'scale.json': '{"decode": {"target": 50}}' });
  const asked = ['--autoscale', 'k8s-hpa', '--autoscale-config', 'scale.json', '--max-decode', '3'];
  const more = ['--drain', 'migrate', '--drain-timeout', '5s', '--autoscale-interval', '2s'];
  const ended = main(['serve', '--model', 'nano', ...asked, ...more], world.deps);
  await expect.poll(() => world.out()).toContain('curl');
  const { options, server } = world.served[0]!;
  expect(options.drain).toEqual({ drain: 'migrate', holdsMs: 5000 });
  expect(server.autoscale).toEqual({
    ...{ name: 'k8s-hpa', parameters: { decode: { target: 50 } }, intervalMs: 2000 },
    bounds: { prefill: { min: 1, max: 4 }, decode: { min: 1, max: 3 } },
  });
  world.interrupt();
  expect(await ended).toBe(0);
});

test('serve autoscales the only roleset with P and D, and refuses a fleet that has none or several', async () => {
  const pair = { prefill: 1, decode: 1 };
  const files = {
    'spare.json': JSON.stringify({ rolesets: [pair, { both: 1 }] }),
    'two.json': JSON.stringify({ rolesets: [pair, pair, { both: 1 }] }),
    'both.json': JSON.stringify({ rolesets: [{ both: 2 }] }),
  };
  const serving = (file: string) => ['serve', '--model', 'nano', '--fleet', file, '--autoscale', 'k8s-hpa'];
  const world = fakeWorld({}, files);
  const ended = main(serving('spare.json'), world.deps);
  await expect.poll(() => world.out()).toContain('curl');
  expect(world.served[0]!.server.autoscale).toMatchObject({ name: 'k8s-hpa' });
  world.interrupt();
  expect(await ended).toBe(0);
  expect(await main(serving('two.json'), world.deps)).toBe(2);
  expect(world.err()).toContain('--autoscale does not know which of 2 rolesets to scale');
  expect(await main(serving('both.json'), world.deps)).toBe(2);
  expect(world.err()).toContain(
    '--autoscale has nothing to scale, because every engine of the fleet does both',
  );
});

test('serve applies the drain policy without an autoscaler too', async () => {
  const world = fakeWorld();
  const ended = main(['serve', '--model', 'nano', '--drain', 'drop', '--drain-timeout', '5s'], world.deps);
  await expect.poll(() => world.out()).toContain('curl');
  expect(world.served[0]!.options.drain).toEqual({ drain: 'drop', holdsMs: 5000 });
  world.interrupt();
  expect(await ended).toBe(0);
});

test.each(['json', 'text'])('serve explains decisions in the format of the log: %s', async (format) => {
  const world = fakeWorld();
  const asked = ['--explain-routing', '--autoscale', 'k8s-hpa', '--explain-scaling', '--log-format', format];
  const ended = main(['serve', '--model', 'nano', ...asked], world.deps);
  await expect.poll(() => world.out()).toContain('curl');
  const before = world.err().length;
  const { onDecision } = world.served[0]!.server;
  const role = { engines: 1, metric: 'requests', value: null, want: 2, why: 'busy' };
  const decision = { by: 'k8s-hpa', atMs: 0, roles: { prefill: role, decode: role }, target: null } as const;
  onDecision!({ kind: 'scaling', decision });
  onDecision!({ kind: 'routing', result: RESULT });
  onDecision!({ kind: 'routing', result: { ...RESULT, routed: null } });
  const failed = {
    conversationId: 'b',
    turn: 1,
    routed: RESULT.routed!,
    outcome: 'aborted',
    ttftMs: null,
  } as const;
  onDecision!({ kind: 'routing of a failed turn', turn: failed });
  const told = world.err().slice(before);
  if (format === 'json') {
    expect(
      told
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      {
        time: expect.any(String),
        level: 'info',
        event: 'scaling',
        by: 'k8s-hpa',
        prefill: role,
        decode: role,
        changes: false,
      },
      expect.objectContaining({
        event: 'routing',
        conversation_id: 'a',
        policy: 'random',
        decode: 'decode-0',
        outcome: 'completed',
        ttft_ms: 30,
      }),
      expect.objectContaining({
        event: 'routing',
        conversation_id: 'b',
        policy: 'random',
        decode: 'decode-0',
        outcome: 'aborted',
        ttft_ms: null,
      }),
    ]);
  } else {
    expect(told).toMatch(/k8s-hpa: no change[\s\S]*a turn 2: prefill-0 to decode-0[\s\S]*Outcome: TTFT 30/);
    expect(told).toMatch(/b turn 1: prefill-0 to decode-0[\s\S]*Outcome: aborted; no token\./);
  }
  world.interrupt();
  expect(await ended).toBe(0);
});

test.each([
  [['--max-decode', '3'], '--max-decode has no effect on a fleet of fixed size: give --autoscale NAME too'],
  [['--min-prefill', '2'], '--min-prefill has no effect on a fleet of fixed size'],
  [['--autoscale-interval', '5s'], '--autoscale-interval has no effect on a fleet of fixed size'],
  [['--autoscale-config', '{}'], '--autoscale-config has no effect on a fleet of fixed size'],
  [['--explain-scaling'], '--explain-scaling has no effect on a fleet of fixed size'],
  [
    ['--pull-policy', 'cost-aware', '--threshold', '9'],
    '--threshold has no effect with --pull-policy cost-aware',
  ],
  [['--mode', 'monolithic,unidirectional'], '--mode names 2 modes (monolithic, unidirectional): a server'],
  [['--store-eviction', 'lru'], '--store-eviction has no effect without a store: give --store BYTES too'],
  [
    ['--kv-cache-metrics-sample', '0.5'],
    '--kv-cache-metrics-sample has no effect without KV cache metrics: give --kv-cache-metrics too',
  ],
  [['--autoscale', 'k8s-hpaa'], "--autoscale is 'k8s-hpaa': wanted one of aibrix-apa, aibrix-kpa, k8s-hpa"],
  [['--autoscale', 'aibrix-apa', '--min-decode', '5'], '--min-decode is 5 and --max-decode is 4'],
  [
    ['--autoscale', 'aibrix-kpa', '--autoscale-config', '{"prefill":{"metric":"wait"}}'],
    '--autoscale aibrix-kpa, prefill, metric is "wait": wanted one of waiting, ',
  ],
  [
    ['--autoscale', 'dynamo-sla', '--autoscale-config', '{"prefill":{"prefillProfile":[]}}'],
    "--autoscale dynamo-sla has no parameter 'prefill'; it has, defaults first, ttftMs=500, itlMs=50, ",
  ],
  [['--autoscale', 'dynamo-sla', '--autoscale-config', '[]'], 'those of dynamo-sla (docs/fleet.md)'],
  [['--autoscale', 'dynamo-sla'], '--autoscale dynamo-sla, prefillProfile is not given'],
  [
    ['--autoscale', 'aibrix-kpa', '--autoscale-config', '{"decode":{"targte":1}}'],
    "--autoscale aibrix-kpa, decode has no parameter 'targte' (did you mean target?); it has, defaults first, target=70, minEngines=1, maxEngines=4, ",
  ],
])('serve refuses %j before anything starts', async (asked, message) => {
  const world = fakeWorld();
  expect(await main(['serve', '--model', 'nano', ...asked], world.deps)).toBe(2);
  expect(world.err().replaceAll('\n', ' ')).toContain(message);
  expect(world.clusters).toHaveLength(0);
});
