import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { main } from '../../src/cli/app.ts';
import { exportFixture, schemas } from './export-schemas.ts';
import { fakeWorld } from './fake.ts';

/** A document of any target, loosely typed. */
// biome-ignore lint/suspicious/noExplicitAny: YAML of six kinds
type Yaml = any;

const FLEET = {
  rolesets: [
    { name: 'short', prefill: 2, decode: 1, promptTokens: { max: 2048 } },
    { name: 'long', prefill: 1, decode: [{ blocks: 4000 }], both: 1, promptTokens: { min: 2049 } },
  ],
};
const ALIKE = {
  rolesets: [
    { prefill: 2, decode: 1 },
    { prefill: 2, decode: 1 },
    { prefill: 2, decode: 1 },
  ],
};
/** Engines that do both, alone or alongside a roleset of P and D. */
const COMBINED = { rolesets: [{ both: 2 }] };
const BESIDE = { rolesets: [{ prefill: 1, decode: 1 }, { both: 1 }] };
const UNLIKE = {
  rolesets: [
    { name: 'short', prefill: 1, decode: 1 },
    { name: 'long', prefill: [{ blocks: 500 }, { prefixCaching: false }], decode: 1 },
  ],
};
/** The note on UNLIKE if its rolesets become one. */
const PREFILL_AS_FIRST =
  'The prefill engines differ in blocks or prefix caching. Replicas must be equal, so all use the settings of prefill-0.';
const ODD = {
  rolesets: [
    { name: 'a\nmv b c', prefill: 1, decode: 1 },
    { prefill: 1, decode: 1 },
  ],
};
const FILES = {
  'odd.json': JSON.stringify(ODD),
  'fleet.json': JSON.stringify(FLEET),
  'unlike.json': JSON.stringify(UNLIKE),
  'alike.json': JSON.stringify(ALIKE),
  'combined.json': JSON.stringify(COMBINED),
  'beside.json': JSON.stringify(BESIDE),
};

async function exported(target: string, args: readonly string[] = []) {
  const world = fakeWorld({}, FILES);
  const code = await main(['export', target, '--model', 'qwen2.5-0.5b', ...args], world.deps);
  return { world, code, text: world.out() };
}

/** Every document of an export, checked against its schema. */
async function documents(target: string, args: readonly string[] = []): Promise<Yaml[]> {
  const { code, text, world } = await exported(target, args);
  expect([code, world.err()]).toEqual([0, '']);
  return parseAllDocuments(text).map((document) => {
    expect(document.errors).toEqual([]);
    const json = document.toJS() as Yaml;
    const kind = (json.kind ?? 'values') as keyof typeof schemas;
    const check = schemas[kind];
    check(json);
    expect(check.errors ?? []).toEqual([]);
    return json;
  });
}

const settings: (readonly string[])[] = [
  [],
  ['--prefill', '3', '--decode', '2', '--p-blocks', '2000', '--no-prefix-caching'],
  ['--fleet', 'fleet.json'],
  ['--fleet', 'fleet.json', '--mode-of-fleet', 'replica'],
  ['--fleet', 'alike.json', '--mode-of-fleet', 'replica', '--routing', 'llm-d'],
  ['--routing', 'sglang', '--max-num-batched-tokens', '2048', '--max-num-seqs', '64'],
];

const titled = settings.map((args) => [args.join(' ') || 'no options', args] as const);

describe.each(['aibrix', 'llm-d', 'dynamo'])('export %s', (target) => {
  it.each(titled)('passes its published schema with %s', async (_options, args) => {
    expect((await documents(target, args)).length).toBeGreaterThan(0);
  });
});

describe('the published schemas', () => {
  it('reject an unknown field and an impossible value', async () => {
    const [storm] = await documents('aibrix');
    storm.spec.template.spec.roles[0].replica = 1;
    expect(schemas.StormService(storm)).toBe(false);
    const [graph] = await documents('dynamo');
    graph.spec.components[1].type = 'prefiller';
    expect(schemas.DynamoGraphDeployment(graph)).toBe(false);
  });
});

describe('export aibrix', () => {
  const rolesOf = (storm: Yaml) =>
    storm.spec.template.spec.roles.map(({ name, replicas }: Yaml) => `${name} ${replicas}`);
  const configOf = (role: Yaml) => JSON.parse(role.template.metadata.annotations['model.aibrix.ai/config']);

  it('writes a pooled fleet as one replica whose roles scale separately', async () => {
    const all = await documents('aibrix', ['--prefill', '3', '--decode', '2']);
    expect(
      all.map(({ kind, spec }) => [
        kind,
        spec.replicas ?? spec.minReplicas,
        spec.subTargetSelector?.roleName,
      ]),
    ).toEqual([
      ['StormService', 1, undefined],
      ['PodAutoscaler', 3, 'prefill'],
      ['PodAutoscaler', 2, 'decode'],
    ]);
    expect(rolesOf(all[0])).toEqual(['prefill 3', 'decode 2']);
    expect(all[1].metadata.annotations).toEqual({ 'autoscaling.aibrix.ai/storm-service-mode': 'pool' });
    expect(all[1].spec.scaleTargetRef.name).toBe(all[0].metadata.name);
  });

  it('takes the rule and the bounds of the autoscaler', async () => {
    const args = ['--autoscale', 'aibrix-kpa', '--min-prefill', '2', '--max-prefill', '6'];
    const [, prefill, decode] = await documents('aibrix', args);
    expect(prefill.spec).toMatchObject({ scalingStrategy: 'KPA', minReplicas: 2, maxReplicas: 6 });
    expect(decode.spec).toMatchObject({ minReplicas: 1, maxReplicas: 4 });
  });

  it('scales by metrics that AIBrix reads from vLLM, and by APA in place of HPA', async () => {
    const args = ['--autoscale', 'k8s-hpa', '--max-num-seqs', '64'];
    const [, prefill, decode] = await documents('aibrix', args);
    expect([prefill, decode].map(({ spec }) => [spec.scalingStrategy, spec.metricsSources])).toMatchObject([
      ['APA', [{ targetMetric: 'num_requests_waiting', targetValue: '10' }]],
      ['APA', [{ targetMetric: 'num_requests_running', targetValue: '45' }]],
    ]);
    const { text } = await exported('aibrix', args);
    expect(text).toContain('--autoscale k8s-hpa is exported as APA: AIBrix refuses HPA for a role.');
  });

  it('writes equal rolesets as replicas, and different ones as services with their prompt bounds', async () => {
    const [alike] = await documents('aibrix', ['--fleet', 'alike.json', '--mode-of-fleet', 'replica']);
    expect([alike.spec.replicas, rolesOf(alike)]).toEqual([3, ['prefill 2', 'decode 1']]);
    const [short, long] = await documents('aibrix', ['--fleet', 'fleet.json', '--mode-of-fleet', 'replica']);
    expect([rolesOf(short), rolesOf(long)]).toEqual([
      ['prefill 2', 'decode 1'],
      ['prefill 1', 'decode 1', 'combined 1'],
    ]);
    const bounds = [short, long].map(
      (storm) => configOf(storm.spec.template.spec.roles[0]).profiles.pd.routingConfig,
    );
    expect(bounds).toMatchObject([
      { promptLenBucketMinLength: 0, promptLenBucketMaxLength: 2048 },
      { promptLenBucketMinLength: 2049, promptLenBucketMaxLength: 0, combined: false },
    ]);
  });

  it('names the scoring policies of the pd router as the gateway does', async () => {
    const given = JSON.stringify({
      'aibrix-pd': { AIBRIX_PREFILL_SCORE_POLICY: 'conductor', decodeLoadImbalanceMinSpread: 4 },
    });
    const args = ['--routing', 'aibrix-pd', '--routing-config', given];
    const [storm] = await documents('aibrix', args);
    for (const role of storm.spec.template.spec.roles) {
      const config = configOf(role);
      schemas.podConfig(config);
      expect(schemas.podConfig.errors ?? []).toEqual([]);
      expect(config.profiles.pd).toMatchObject({
        routingStrategy: 'pd',
        routingConfig: { prefillScorePolicy: 'conductor', decodeScorePolicy: 'load_balancing' },
      });
    }
    expect((await exported('aibrix', args)).text).toContain('AIBRIX_DECODE_LOAD_IMBALANCE_MIN_SPREAD=4');
  });

  it('chooses the agent that passes on what a NixlConnector returns, and turns pulling back off', async () => {
    const [storm] = await documents('aibrix');
    const [prefill] = storm.spec.template.spec.roles;
    expect(prefill.template.metadata.labels['model.aibrix.ai/kv-connector-type']).toBe('shfs');
    const [line] = prefill.template.spec.containers[0].args;
    expect(line).toContain('vllm serve Qwen/Qwen2.5-0.5B-Instruct');
    expect(line).toContain('"bidirectional_kv_xfer":false');
  });

  it('keeps all KV of sliding-window layers with --all-full-kv', async () => {
    const [storm] = await documents('aibrix', ['--all-full-kv']);
    for (const role of storm.spec.template.spec.roles)
      expect(role.template.spec.containers[0].args[0]).toContain('--disable-hybrid-kv-cache-manager');
  });

  it('refuses a model name that cannot be a label', async () => {
    const { code, world } = await exported('aibrix', ['--served-model-name', 'a/b']);
    expect([code, world.err()]).toEqual([
      2,
      expect.stringContaining("'a/b' is not a valid label: give --served-model-name"),
    ]);
  });
});

describe('export llm-d', () => {
  it('puts D behind the sidecar, and declares every plugin that its profiles name', async () => {
    const [values, picker] = await documents('llm-d', [
      '--prefill',
      '2',
      '--decode',
      '4',
      '--routing',
      'llm-d',
    ]);
    expect([values.prefill.replicas, values.decode.replicas]).toEqual([2, 4]);
    expect(values.decode.containers[0].ports[0].containerPort).toBe(values.routing.proxy.targetPort);
    expect(values.prefill.containers[0].ports[0].containerPort).toBe(values.routing.servicePort);
    const types = picker.plugins.map(({ type }: Yaml) => type);
    const names = picker.plugins.map(({ name, type }: Yaml) => name ?? type);
    for (const { plugins } of picker.schedulingProfiles)
      for (const { pluginRef } of plugins) expect(names).toContain(pluginRef);
    expect(types).toContain(
      picker.plugins.find(({ type }: Yaml) => type === 'disagg-profile-handler').parameters.deciders.prefill,
    );
  });

  it('has engines publish cache events, and the picker listen, only if a scorer needs them', async () => {
    const [values, picker] = await documents('llm-d', ['--routing', 'llm-d', '--block-size', '32']);
    for (const { containers } of [values.prefill, values.decode]) {
      const [{ args, env, ports }] = containers;
      const events = JSON.parse(args[args.indexOf('--kv-events-config') + 1]);
      expect(events).toMatchObject({
        enable_kv_cache_events: true,
        endpoint: 'tcp://*:5557',
        topic: 'kv@$(POD_IP):8000@Qwen2.5-0.5B-Instruct',
      });
      expect(env.map(({ name }: Yaml) => name)).toContain('POD_IP');
      expect(ports.map(({ containerPort }: Yaml) => containerPort)).toContain(5557);
    }
    expect(picker.dataLayer.sources).toEqual([
      {
        pluginRef: 'endpoint-notification-source',
        extractors: [{ pluginRef: 'precise-prefix-cache-producer' }],
      },
    ]);
    const plugin = (type: string) => picker.plugins.find((one: Yaml) => one.type === type);
    expect(plugin('precise-prefix-cache-producer').parameters.tokenProcessorConfig).toEqual({
      blockSizeTokens: 32,
    });
    expect(plugin('token-producer').parameters.modelName).toBe('Qwen/Qwen2.5-0.5B-Instruct');

    const scorers = { 'queue-scorer': 1 };
    const given = JSON.stringify({ 'llm-d': { prefill: scorers, decode: scorers } });
    const [quiet, deaf] = await documents('llm-d', ['--routing', 'llm-d', '--routing-config', given]);
    expect(quiet.decode.containers[0].args).not.toContain('--kv-events-config');
    expect(deaf).not.toHaveProperty('dataLayer');
  });

  it('writes a picker configuration that --routing-config can read', async () => {
    const [, picker] = await documents('llm-d', ['--routing', 'llm-d']);
    const given = JSON.stringify({ 'llm-d': picker });
    const [, again] = await documents('llm-d', ['--routing', 'llm-d', '--routing-config', given]);
    expect(again).toEqual(picker);
  });

  it("takes scorer weights and the decider's threshold from the parameters", async () => {
    const given = JSON.stringify({ 'llm-d': { nonCachedTokens: 512, decode: { 'queue-scorer': 3 } } });
    const [, picker] = await documents('llm-d', ['--routing', 'llm-d', '--routing-config', given]);
    expect(picker.plugins).toContainEqual({
      type: 'prefix-based-pd-decider',
      parameters: { nonCachedTokens: 512 },
    });
    expect(picker.schedulingProfiles[1].plugins).toContainEqual({ pluginRef: 'queue-scorer', weight: 3 });
  });

  it('writes its files to a directory', async () => {
    const { world, text } = await exported('llm-d', []);
    expect(text).toContain('# ==== values.yaml');
    const other = fakeWorld({}, FILES);
    expect(await main(['export', 'llm-d', 'out', '--model', 'qwen2.5-0.5b'], other.deps)).toBe(0);
    expect([...other.files.keys()].filter((name) => name.startsWith('out/'))).toEqual([
      'out/values.yaml',
      'out/epp-config.yaml',
    ]);
    expect(other.out()).toBe('wrote values.yaml, epp-config.yaml to out\n');
    expect(world.directories).toEqual([]);
  });
});

describe('export dynamo', () => {
  it("sets the frontend's router mode from the routing policy", async () => {
    const modeOf = async (routing: string) => {
      const [graph] = await documents('dynamo', ['--routing', routing]);
      const { env } = graph.spec.components[0].podTemplate.spec.containers[0];
      return env.find(({ name }: Yaml) => name === 'DYN_ROUTER_MODE').value;
    };
    const names = ['dynamo', 'round-robin', 'power-of-two', 'least-request', 'mooncake'];
    expect(await Promise.all(names.map(modeOf))).toEqual([
      'kv',
      'round-robin',
      'power-of-two',
      'least-loaded',
      'kv',
    ]);
  });

  it("lets D prefill short prompts itself only under the policy's isl_bounding rule", async () => {
    const environmentOf = async (parameters: object) => {
      const given = JSON.stringify({ dynamo: parameters });
      const [graph] = await documents('dynamo', ['--routing', 'dynamo', '--routing-config', given]);
      const { env } = graph.spec.components[0].podTemplate.spec.containers[0];
      return Object.fromEntries(env.map(({ name, value }: Yaml) => [name, value]));
    };
    const bounded = await environmentOf({ effectiveIsl: 512, decodeBusyUsage: 0.9 });
    expect(bounded.DYN_ROUTER_CONDITIONAL_DISAGG).toBe('true');
    expect(JSON.parse(bounded.DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG)).toEqual({
      policy: 'isl_bounding',
      eff_isl_threshold: 512,
      eff_isl_ratio_threshold: 0.7,
      decode_busy_threshold: 0.9,
    });
    for (const conditionalDisagg of [null, 'isl_or_load'])
      expect(await environmentOf({ conditionalDisagg })).not.toHaveProperty('DYN_ROUTER_CONDITIONAL_DISAGG');
  });

  it("has D publish cache events only if the frontend's choice depends on them", async () => {
    const publish = async (args: readonly string[]) => {
      const [graph] = await documents('dynamo', args);
      return graph.spec.components
        .slice(1)
        .filter(({ podTemplate }: Yaml) => podTemplate.spec.containers[0].args.includes('--kv-events-config'))
        .map(({ type }: Yaml) => type);
    };
    expect(await publish(['--routing', 'dynamo'])).toEqual(['prefill', 'decode']);
    expect(await publish(['--routing', 'round-robin'])).toEqual(['prefill']);
  });

  it('writes one graph for each separate roleset', async () => {
    const graphs = await documents('dynamo', ['--fleet', 'fleet.json', '--mode-of-fleet', 'replica']);
    const workers = graphs.map(({ spec }) =>
      spec.components.slice(1).map(({ type, replicas }: Yaml) => `${type} ${replicas}`),
    );
    expect(workers).toEqual([
      ['prefill 2', 'decode 1'],
      ['prefill 1', 'decode 1'],
    ]);
    expect(new Set(graphs.map(({ metadata }) => metadata.name)).size).toBe(2);
  });
});

describe('export sglang', () => {
  const known = exportFixture('sglang-options.json');
  const commandsOf = (text: string) =>
    text
      .split('\n\n')
      .filter((part) => part.includes('python'))
      .map((part) => part.replace(/^#.*$/gm, '').replaceAll('\\\n', ' ').trim().split(/\s+/));

  it.each(titled)('uses only options that SGLang has with %s', async (_options, args) => {
    const { code, text } = await exported('sglang', args);
    expect(code).toBe(0);
    for (const words of commandsOf(text)) {
      const program = words[words.indexOf('-m') + 1]!;
      expect(Object.keys(known)).toContain(program);
      for (const word of words.filter((each) => each.startsWith('--')))
        expect(known[program]).toContain(word);
    }
  });

  it('gives the gateway every engine, and the bootstrap port of each P', async () => {
    const { text } = await exported('sglang', [
      '--prefill',
      '2',
      '--decode',
      '1',
      '--routing',
      'power-of-two',
    ]);
    const gateway = commandsOf(text).at(-1)!.join(' ');
    expect(gateway).toContain(
      '--prefill http://localhost:30100 8998 --prefill http://localhost:30101 8999 --decode http://localhost:30102',
    );
    expect(gateway).toContain('--prefill-policy power_of_two --decode-policy power_of_two');
    expect(text).toContain('--disaggregation-bootstrap-port 8999');
  });

  it('launches each engine by its name and with its own settings', async () => {
    for (const mode of ['pooled', 'replica']) {
      const { text } = await exported('sglang', ['--fleet', 'unlike.json', '--mode-of-fleet', mode]);
      const launched = [...text.matchAll(/^# (\S+-\d) of .*\n((?:.+\n)+)/gm)].map(([, name, command]) => [
        name,
        /--max-total-tokens (\d+)/.exec(command!)?.[1] ?? null,
        /--dis\S+-radix-cache/.exec(command!)?.[0] ?? null,
      ]);
      const onD = '--disaggregation-decode-enable-radix-cache';
      expect(launched.toSorted()).toEqual([
        ['decode-0', null, onD],
        ['decode-1', null, onD],
        ['prefill-0', null, null],
        ['prefill-1', String(500 * 16), null],
        ['prefill-2', null, '--disable-radix-cache'],
      ]);
      expect(text).not.toMatch(/must be equal|use the settings of/);
    }
  });

  it('gives the gateway whole numbers', async () => {
    const given = { balanceAbsThreshold: 1.5, evictionIntervalSecs: 0.5, bucketAdjustIntervalSecs: 2.5 };
    const flagsOf = async (prefillPolicy: string) => {
      const config = JSON.stringify({ sglang: { ...given, prefillPolicy } });
      const { text } = await exported('sglang', ['--routing', 'sglang', '--routing-config', config]);
      return commandsOf(text).at(-1)!.join(' ');
    };
    const cacheAware = await flagsOf('cache_aware');
    expect(cacheAware).toContain('--balance-abs-threshold 1 ');
    expect(cacheAware).toContain('--eviction-interval-secs 1 ');
    expect(await flagsOf('bucket')).toContain('--bucket-adjust-interval-secs 3');
  });

  it('keeps a name with a line break inside its comment', async () => {
    const names = ['--served-model-name', 'x\nmv d e,y'];
    const { text } = await exported('sglang', [
      ...['--fleet', 'odd.json', '--mode-of-fleet', 'replica', ...names],
    ]);
    expect(text).toContain('# gateway of a mv b c');
    expect(text).toContain('this export uses the first, x mv d e.');
    expect(text).not.toMatch(/^mv b/m);
  });

  it('opens no port twice on one machine', async () => {
    const { text } = await exported('sglang', ['--fleet', 'alike.json', '--mode-of-fleet', 'replica']);
    const opened = ['--port', '--prometheus-port', '--disaggregation-bootstrap-port'];
    const ports = commandsOf(text).flatMap((words) => words.filter((_, i) => opened.includes(words[i - 1]!)));
    // Three rolesets of three engines, two of which prefill, and three gateways with metrics.
    expect(ports).toHaveLength(9 + 6 + 6);
    expect(new Set(ports).size).toBe(ports.length);
  });
});

describe('limits of exports', () => {
  it.each([
    ['aibrix', ['--mode', 'bidirectional'], "Pulling D's KV back"],
    [
      'aibrix',
      [
        '--routing',
        'aibrix-pd',
        '--routing-config',
        '{"aibrix-pd":{"prefixCacheStandardDeviationFactor":1.5}}',
      ],
      'takes its default instead of 1.5',
    ],
    ['llm-d', ['--fleet', 'fleet.json', '--mode-of-fleet', 'replica'], 'llm-d has no rolesets'],
    ['llm-d', ['--fleet', 'fleet.json'], 'Prompt lengths by roleset: llm-d has no such bounds'],
    ['dynamo', ['--fleet', 'fleet.json'], 'Engines that do both'],
    ['dynamo', ['--routing', 'mooncake'], 'Routing policy mooncake does not exist in Dynamo'],
    ['dynamo', ['--routing', 'dynamo'], 'are deprecated in Dynamo 1.6'],
    [
      'dynamo',
      ['--routing', 'dynamo', '--routing-config', '{"dynamo":{"conditionalDisagg":"isl_or_load"}}'],
      'conditionalDisagg isl_or_load is omitted, so P prefills everything',
    ],
    ['sglang', ['--mode', 'bidirectional'], 'SGLang only hands KV over from P to D'],
    [
      'aibrix',
      ['--fleet', 'unlike.json', '--mode-of-fleet', 'replica'],
      'The prefill engines of roleset long differ in blocks or prefix caching. Replicas must be equal, so all use the settings of prefill-1.',
    ],
    ['aibrix', ['--fleet', 'unlike.json'], PREFILL_AS_FIRST],
    ['llm-d', ['--fleet', 'unlike.json', '--mode-of-fleet', 'replica'], PREFILL_AS_FIRST],
    ['dynamo', ['--fleet', 'unlike.json'], PREFILL_AS_FIRST],
    ['aibrix', ['--link', '10gbe'], 'Modelled links are not exported'],
    ['aibrix', ['--fleet', 'fleet.json'], 'AIBrix pairs P and D only within a roleset'],
    ['aibrix', ['--fleet', 'fleet.json'], 'all use the settings of decode-0'],
    [
      'aibrix',
      ['--store', '64MiB', '--arithmetic', 'f16'],
      "--arithmetic, --store: for kvferry's own engines",
    ],
    ['aibrix', ['--autoscale', 'aibrix-apa', '--drain', 'drop'], "--drain: for kvferry's own engines"],
    ['aibrix', ['--api-key', 'secret'], 'Keys are not printed'],
    [
      'llm-d',
      ['--autoscale', 'k8s-hpa'],
      '--autoscale k8s-hpa and its bounds are not exported: replicas match',
    ],
    [
      'dynamo',
      ['--served-model-name', 'one,two'],
      'Several served model names are given: this export uses the first, one',
    ],
    ['sglang', ['--all-full-kv'], '--all-full-kv: only for vLLM, not exported'],
    [
      'sglang',
      ['--store-dir', '/kv', '--kv-transfer-config', '{"kv_connector":"OffloadingConnector"}'],
      '--kv-transfer-config, --store, --store-eviction, --store-dir: only for vLLM, not exported',
    ],
    [
      'llm-d',
      ['--store', '1GiB', '--kv-transfer-config', '{"kv_connector":"OffloadingConnector"}'],
      'store memory of its own. D finds nothing there that P saved',
    ],
    [
      'dynamo',
      ['--store-dir', '/kv', '--kv-transfer-config', '{"kv_connector":"OffloadingConnector"}'],
      'The engines share only the folder /kv: give them the same file system there',
    ],
    ...['aibrix', 'llm-d', 'dynamo'].map((target): [string, string[], string] => [
      target,
      ['--kv-transfer-config', '{"kv_connector":"AIBrixOffloadingConnector"}'],
      'from the environment: set AIBRIX_KV_CACHE_OL_* for each engine',
    ]),
    ['sglang', ['--temperature', '0.5'], 'while kvferry uses {"temperature":0.5,"top_p":1,"top_k":0}'],
    [
      'vllm',
      ['--fleet', 'fleet.json'],
      "Omitted: 1 engine for both roles; vLLM's proxy supports only P and D",
    ],
    ['vllm', ['--fleet', 'fleet.json'], "Prompt lengths by roleset: vLLM's proxy has no such bounds"],
    ['vllm', ['--routing', 'llm-d'], `--routing (["llm-d"]): vLLM's proxy routes round robin`],
    [
      'vllm',
      ['--mode-of-fleet', 'replica'],
      '--mode-of-fleet ("replica"): vLLM\'s proxy pairs any P with any D',
    ],
    ['vllm', ['--autoscale', 'k8s-hpa'], '--autoscale ("k8s-hpa"): vLLM\'s proxy keeps the engines'],
    ['vllm', ['--store', '64MiB'], "--store (67108864): vLLM's stores are connectors"],
  ])('%s with %j gets a remark', async (target, args, remark) => {
    const { text } = await exported(target, args);
    const remarks = text
      .split('\n')
      .filter((line) => line.startsWith('#'))
      .join(' ')
      .replace(/\s*#\s+/g, ' ');
    expect(remarks).toContain(remark);
  });

  it.each(['llm-d', 'dynamo', 'sglang', 'vllm'])('%s refuses a fleet without P and D', async (target) => {
    const { code, world } = await exported(target, ['--fleet', 'combined.json', '--mode', 'bidirectional']);
    expect([code, world.err()]).toEqual([
      2,
      expect.stringMatching(/only engines that do both|no roleset has both P and D/),
    ]);
    expect((await exported('aibrix', ['--fleet', 'combined.json'])).code).toBe(0);
  });

  it.each(['dynamo', 'sglang'])('%s leaves out a roleset without P and D, and says so', async (target) => {
    const { code, text } = await exported(target, ['--fleet', 'beside.json', '--mode-of-fleet', 'replica']);
    expect(code).toBe(0);
    expect(text).toContain('Engines that do both are omitted:');
    expect(text.match(/kind: DynamoGraphDeployment|launch_router/g)).toHaveLength(1);
  });

  it.each(['aibrix', 'llm-d', 'dynamo', 'sglang'])(
    '%s says so if no mode of the experiment is exported',
    async (target) => {
      const remark = '--mode monolithic,decode-local is not exported';
      const { text } = await exported(target, ['--mode', 'monolithic,decode-local']);
      expect(text).toContain(remark);
      expect((await exported(target)).text).not.toContain('is not exported: P prefills');
    },
  );

  it('no API key is printed', async () => {
    for (const target of ['aibrix', 'llm-d', 'dynamo', 'sglang'])
      expect((await exported(target, ['--api-key', 'hushed'])).text).not.toContain('hushed');
  });

  it('a model with generated weights, which exists only here, is refused', async () => {
    const world = fakeWorld({}, FILES);
    expect(await main(['export', 'aibrix', '--model', 'tiny'], world.deps)).toBe(2);
    expect(world.err()).toContain('tiny has random weights and exists only in kvferry');
  });

  it('an unknown target is refused', async () => {
    const world = fakeWorld({}, FILES);
    expect(await main(['export', 'aibrixs'], world.deps)).toBe(2);
    expect(world.err()).toContain("there is no 'aibrixs' to export");
    expect(world.err()).toContain('did you mean aibrix?');
    expect(await main(['export', 'constructor'], world.deps)).toBe(2);
    expect(world.err()).toContain("there is no 'constructor' to export");
  });
});

describe('export vllm of a fleet', () => {
  it('starts every engine on its own GPU and port, and names all engines to the proxy', async () => {
    const { text, code } = await exported('vllm', [
      '--prefill',
      '2',
      '--decode',
      '3',
      '--mode',
      'bidirectional',
    ]);
    expect(code).toBe(0);
    expect(text.match(/CUDA_VISIBLE_DEVICES=\d/g)).toEqual(
      [0, 1, 2, 3, 4].map((gpu) => `CUDA_VISIBLE_DEVICES=${gpu}`),
    );
    expect(text).toContain('--prefiller-hosts localhost localhost');
    expect(text).toContain('--decoder-ports 8200 8201 8202');
  });
});

it('a truncated name does not end with a hyphen, as Kubernetes requires', async () => {
  const [service] = await documents('aibrix', ['--served-model-name', `${'m'.repeat(31)}-xl`]);
  expect(service.metadata.name).toBe(`kvferry-${'m'.repeat(31)}`);
});
