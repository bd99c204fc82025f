/** `kvferry export vllm` prints a script, which these tests run in a shell. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { widthOf } from '../../src/cli/output/format.ts';
import { quote, writeFileText } from '../../src/cli/vllm/shell.ts';
import { generatorSchema } from '../../src/workload/generate.ts';
import { fakeWorld } from './fake.ts';

const directory = mkdtempSync(path.join(tmpdir(), 'kvferry-export-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** Shell functions in place of vllm and python that print their words and environment. */
const STUBS = `
tell() { printf '%s\\0' "$CUDA_VISIBLE_DEVICES|$VLLM_NIXL_SIDE_CHANNEL_HOST|$VLLM_NIXL_SIDE_CHANNEL_PORT" "$@"; printf '\\n\\0'; }
vllm() { tell vllm "$@"; }
python() { tell python "$@"; }
`;

function runScript(script: string): { env: string; words: string[] }[] {
  const out = execFileSync(
    'bash',
    [
      '-euc',
      `CUDA_VISIBLE_DEVICES= VLLM_NIXL_SIDE_CHANNEL_HOST= VLLM_NIXL_SIDE_CHANNEL_PORT=\n${STUBS}\n${script}`,
    ],
    {
      cwd: directory,
      encoding: 'utf8',
    },
  );
  return out
    .split('\n\0')
    .slice(0, -1)
    .map((call) => {
      const [env = '', ...words] = call.split('\0').slice(0, -1);
      return { env, words };
    });
}

async function exported(argv: string[], files: Record<string, string> = {}): Promise<string> {
  const world = fakeWorld({}, files);
  const code = await main(['export', 'vllm', ...argv], world.deps);
  expect([code, world.err()]).toEqual([0, '']);
  return world.out();
}

/** The value of an option; undefined if the option is missing. */
const wordAfter = (words: readonly string[], option: string): string | undefined =>
  words.includes(option) ? words[words.indexOf(option) + 1] : undefined;

describe('the exported script', () => {
  it('starts P and D with every setting that vLLM has', async () => {
    const script = await exported([
      ...['--model', 'qwen2.5-0.5b', '--mode', 'bidirectional', '--threshold', '128', '--ttl', '60'],
      ...['--lease', '7.5', '--block-size', '32', '--max-model-len', '4096', '--no-prefix-caching'],
      ...['--p-blocks', '500', '--load-failure-policy', 'recompute', '--seed', '7', '--temperature', '0.5'],
      ...['--kv-cache-metrics', '--kv-cache-metrics-sample', '0.1'],
    ]);
    const [p, d, proxy, benchmark] = runScript(script);
    expect(p!.env).toBe('0|localhost|5600');
    expect(d!.env).toBe('1|localhost|5601');
    expect(p!.words.slice(0, 3)).toEqual(['vllm', 'serve', 'Qwen/Qwen2.5-0.5B-Instruct']);
    for (const [kvRole, { words }] of [
      ['kv_producer', p!],
      ['kv_consumer', d!],
    ] as const) {
      expect(wordAfter(words, '--block-size')).toBe('32');
      expect(wordAfter(words, '--max-model-len')).toBe('4096');
      expect(wordAfter(words, '--max-num-seqs')).toBe('128');
      expect(wordAfter(words, '--seed')).toBe('7');
      expect(words).toContain('--kv-cache-metrics');
      expect(wordAfter(words, '--kv-cache-metrics-sample')).toBe('0.1');
      expect(JSON.parse(wordAfter(words, '--override-generation-config')!)).toEqual({
        temperature: 0.5,
        top_p: 1,
        top_k: 0,
      });
      expect(JSON.parse(wordAfter(words, '--kv-transfer-config')!)).toEqual({
        kv_connector: 'NixlConnector',
        kv_role: kvRole,
        kv_load_failure_policy: 'recompute',
        kv_connector_extra_config: {
          bidirectional_kv_xfer: true,
          kv_recompute_threshold: 128,
          decoder_kv_blocks_ttl: 60,
          kv_lease_duration: 7.5,
          enforce_handshake_compat: true,
        },
      });
    }
    expect(p!.words).toContain('--no-enable-prefix-caching');
    expect(d!.words).toContain('--enable-prefix-caching');
    expect(wordAfter(p!.words, '--num-gpu-blocks-override')).toBe('500');
    expect(d!.words).not.toContain('--num-gpu-blocks-override');
    expect(wordAfter(proxy!.words, '--prefiller-port')).toBe(wordAfter(p!.words, '--port'));
    expect(wordAfter(proxy!.words, '--decoder-port')).toBe(wordAfter(d!.words, '--port'));
    expect(wordAfter(benchmark!.words, '--url')).toBe(
      `http://localhost:${wordAfter(proxy!.words, '--port')}`,
    );
  });

  it("takes the server's ports and names, and contains no key", async () => {
    const script = await exported([
      ...['--model', 'smollm2-135m', '--mode', 'unidirectional', '--port', '9000', '--prefill-port', '9100'],
      ...['--decode-port', '0', '--served-model-name', 'one,,two', '--api-key', 'secret'],
    ]);
    const [p, d, proxy, benchmark] = runScript(script).map(({ words }) => words);
    expect([p!, d!].map((words) => wordAfter(words, '--port'))).toEqual(['9100', '8200']);
    expect(p!.slice(p!.indexOf('--served-model-name') + 1).slice(0, 2)).toEqual(['one', 'two']);
    expect(wordAfter(proxy!, '--port')).toBe('9000');
    expect(wordAfter(proxy!, '--prefiller-port')).toBe('9100');
    expect(wordAfter(benchmark!, '--served-model-name')).toBe('one');
    expect(script).not.toContain('secret');
    expect(script).toContain('VLLM_API_KEY');
  });

  it.each([
    ['--prefill-port 0,8100', ['8101', '8100', '8200']],
    ['--prefill-port 0 --decode-port 8100', ['8101', '8102', '8100']],
    ['--prefill-port 0 --port 8101', ['8100', '8102', '8200']],
  ])('gives every engine its own port: %s', async (ports, expected) => {
    const options = ['--model', 'smollm2-135m', '--mode', 'unidirectional', '--prefill', '2'];
    const calls = runScript(await exported([...options, ...ports.split(' ')]));
    const engines = calls.filter(({ words }) => words[0] === 'vllm');
    expect(engines.map(({ words }) => wordAfter(words, '--port'))).toEqual(expected);
  });

  it.each([
    ['--port 8100', 'port 8100 is given to both prefill-0 and router'],
    ['--prefill-port 8200', 'port 8200 is given to both prefill-0 and decode-0'],
    ['--prefill-port 8100,8101,8102', '--prefill-port has 3 ports for 1 P'],
    ['--decode-port 65535 --decode 2', 'decode-1 would get port 65536'],
  ])('refuses ports that serve refuses: %s', async (ports, said) => {
    const world = fakeWorld();
    const argv = [
      'export',
      'vllm',
      '--model',
      'smollm2-135m',
      '--mode',
      'unidirectional',
      ...ports.split(' '),
    ];
    expect(await main(argv, world.deps)).toBe(2);
    expect(world.err()).toContain(said);
  });

  it('differs between modes in the pull flag, and has a single engine for monolithic mode', async () => {
    const calls = runScript(await exported(['--model', 'smollm2-135m']));
    expect(calls.map(({ words }) => words[1])).toEqual([
      'serve',
      ...['serve', 'serve', 'disagg_proxy_multiturn.py'],
      ...['serve', 'serve', 'disagg_proxy_multiturn.py'],
      'benchmark_serving_multi_turn.py',
    ]);
    const flags = calls.map(
      ({ words }) => wordAfter(words, '--kv-transfer-config')?.match(/kv_xfer":(\w+)/)?.[1],
    );
    expect(flags).toEqual([undefined, 'false', 'false', undefined, 'true', 'true', undefined, undefined]);
    expect(wordAfter(calls[0]!.words, '--port')).toBe('8000');
  });

  it('writes a generated workload as an input file of the benchmark', async () => {
    const script = await exported([
      ...['--model', 'llama-3.2-1b', '--turns', '3', '--conversations', '4', '--system-tokens', '50'],
      ...['--user-tokens', '20', '--output-tokens', '30', '--concurrency', '2'],
    ]);
    const benchmark = runScript(script).at(-1)!.words;
    expect(wordAfter(benchmark, '--num-clients')).toBe('2');
    expect(benchmark).toContain('--send-conversation-id');
    const file = readFileSync(path.join(directory, wordAfter(benchmark, '--input-file')!), 'utf8');
    expect(generatorSchema.parse(JSON.parse(file))).toMatchObject({
      num_conversations: 4,
      text_files: ['pg1184.txt'],
      prompt_input: {
        num_turns: { value: 6 },
        common_prefix_num_tokens: { value: 50 },
        num_tokens: { value: 20 },
      },
      prompt_output: { num_tokens: { value: 30 } },
    });
  });

  it('uses the clients, lengths and scale of the published benchmark', async () => {
    const options = ['--model', 'qwen2.5-0.5b', '--preset', 'pr32553', '--scale', '1/16'];
    const benchmark = runScript(await exported(options)).at(-1)!.words;
    expect(wordAfter(benchmark, '--num-clients')).toBe('2');
    expect(wordAfter(benchmark, '--max-active-conversations')).toBe('24');
    expect(JSON.parse(readFileSync(path.join(directory, 'workload.json'), 'utf8'))).toMatchObject({
      prompt_input: {
        num_turns: { min: 12, max: 18 },
        prefix_num_tokens: { average: 250, max: 625 },
        num_tokens: { min: 8, max: 10 },
      },
      prompt_output: { num_tokens: { min: 50, max: 75 } },
    });
  });

  it('says so if conversations grow longer than its engines accept', async () => {
    const asked = ['--model', 'qwen2.5-0.5b', '--preset', 'pr32553'];
    const note = /The conversations grow to 18032 tokens, and the engines refuse more than\n# 8192: raise/;
    expect(await exported(asked)).toMatch(note);
    for (const more of [
      ['--max-model-len', '18032'],
      ['--scale', '1/4'],
    ])
      expect(await exported([...asked, ...more])).not.toContain('conversations grow to');
  });

  it('writes a text conversation with a place for every answer, whatever quotes it contains', async () => {
    const messages = [
      { role: 'system', content: "You're $HOME `ls`" },
      { role: 'user', content: 'a "question"\nEOF\n\\n' },
      { role: 'assistant', content: 'old' },
      { role: 'user', content: 'and?' },
    ];
    const options = ['--model', 'smollm2-135m', '--conversation', 'talk.json', '--max-tokens', '40'];
    const script = await exported(options, { 'talk.json': JSON.stringify(messages) });
    const benchmark = runScript(script).at(-1)!.words;
    expect([wordAfter(benchmark, '--limit-min-tokens'), wordAfter(benchmark, '--limit-max-tokens')]).toEqual([
      '1',
      '40',
    ]);
    const [conversation] = JSON.parse(readFileSync(path.join(directory, 'conversations.json'), 'utf8'));
    expect(conversation.messages.map((m: { role: string }) => m.role)).toEqual([
      ...['user', 'assistant', 'user', 'assistant'],
    ]);
    expect(conversation.messages[0].content).toBe('You\'re $HOME `ls`\n\na "question"\nEOF\n\\n');
    expect(script).toContain('does not support system messages');
  });

  it('passes on limits for the answers of a text conversation', async () => {
    const talk = { 'talk.json': JSON.stringify([{ role: 'user', content: 'Hello' }]) };
    const limits = ['--limit-min-tokens', '5', '--limit-max-tokens', '9'];
    const script = await exported(
      ['--model', 'smollm2-135m', '--conversation', 'talk.json', ...limits],
      talk,
    );
    expect(script).toContain('--limit-min-tokens 5');
    expect(script).toContain('--limit-max-tokens 9');
  });

  it.each([
    ['--preset pr32553 --input-file talk.json', '--input-file and --preset are both given'],
    [
      '--preset pr32553 --conversation talk.json',
      '--conversation has no effect with --preset or --input-file',
    ],
    ['--input-file talk.json --turns 3', '--turns has no effect with --preset or --input-file'],
    ['--preset pr32553 --max-tokens 9', '--max-tokens has no effect on a workload that sets'],
    ['--conversation talk.json --scale 1/4', '--scale has no effect on a text conversation'],
    ['--limit-max-tokens 9', 'give both, or neither'],
  ])('refuses options of another workload: %s', async (options, said) => {
    const world = fakeWorld({}, { 'talk.json': JSON.stringify([{ role: 'user', content: 'Hello' }]) });
    const argv = ['export', 'vllm', '--model', 'smollm2-135m', ...options.split(' ')];
    expect(await main(argv, world.deps)).toBe(2);
    expect(world.err()).toContain(said);
  });

  it('scales the threshold as it scales lengths, unless one is given, and takes a number of clients', async () => {
    const given = [
      '--model',
      'qwen2.5-0.5b',
      '--preset',
      'pr32553',
      '--scale',
      '1/16',
      '--mode',
      'bidirectional',
    ];
    const of = async (...more: string[]) => {
      const commands = runScript(await exported([...given, ...more]));
      const kv = JSON.parse(wordAfter(commands[0]!.words, '--kv-transfer-config')!);
      const benchmark = commands.at(-1)!.words;
      const clients = ['--num-clients', '--max-active-conversations'].map((name) =>
        wordAfter(benchmark, name),
      );
      return [kv.kv_connector_extra_config.kv_recompute_threshold, ...clients];
    };
    expect(await of()).toEqual([4, '2', '24']);
    expect(await of('--num-clients', '6', '--threshold', '9')).toEqual([9, '6', '24']);
  });

  it("passes on the benchmark's own options, including negative limits", async () => {
    const file = JSON.stringify([
      {
        id: 'x',
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'b' },
        ],
      },
    ]);
    const script = await exported(
      [
        ...['--model', 'smollm2-135m', '--input-file', 'in.json', '--limit-min-tokens', '-1'],
        ...['--limit-max-tokens', '-1', '--request-rate', '2.5', '--warmup-step', '--early-stop'],
      ],
      { 'in.json': file },
    );
    const benchmark = runScript(script).at(-1)!.words;
    expect(wordAfter(benchmark, '--limit-min-tokens')).toBe('-1');
    expect(wordAfter(benchmark, '--request-rate')).toBe('2.5');
    expect(benchmark).toContain('--warmup-step');
    expect(benchmark).not.toContain('--no-early-stop');
    expect(readFileSync(path.join(directory, 'conversations.json'), 'utf8').trim()).toBe(file);
  });

  it('writes the effective settings into each connector of a MultiConnector', async () => {
    const given = {
      kv_connector: 'MultiConnector',
      kv_connector_extra_config: {
        composition: 'compose',
        connectors: [
          { kv_connector: 'NixlConnector', kv_connector_extra_config: { bidirectional_kv_xfer: true } },
          { kv_connector: 'OffloadingConnector', kv_connector_extra_config: { cpu_bytes_to_use: 1000 } },
        ],
      },
    };
    const text = await exported([
      ...['--model', 'smollm2-135m', '--mode', 'unidirectional,bidirectional', '--threshold', '128'],
      ...['--kv-transfer-config', JSON.stringify(given)],
    ]);
    const both = [0, 3].map((at) =>
      JSON.parse(wordAfter(runScript(text)[at]!.words, '--kv-transfer-config')!),
    );
    for (const [i, { kv_connector_extra_config: extra }] of both.entries())
      expect(extra).toEqual({
        connectors: [
          {
            kv_connector: 'NixlConnector',
            kv_role: 'kv_producer',
            kv_connector_extra_config: expect.objectContaining({
              bidirectional_kv_xfer: i === 1,
              kv_recompute_threshold: 128,
            }),
          },
          {
            kv_connector: 'OffloadingConnector',
            kv_role: 'kv_both',
            kv_connector_extra_config: {
              cpu_bytes_to_use: 1000,
              eviction_policy: 'lru',
              offload_prompt_only: true,
            },
          },
        ],
      });
    expect(text.replace(/\s*#\s+/g, ' ')).toContain('composition compose exists only in kvferry');
    expect(text).not.toMatch(/^# - --store/m);
  });

  it("writes a folder below the store as vLLM's tier, unless vLLM would refuse it", async () => {
    const withExtra = async (extra: object) => {
      const given = { kv_connector: 'OffloadingConnector', kv_connector_extra_config: extra };
      const text = await exported([
        ...['--model', 'smollm2-135m', '--mode', 'unidirectional', '--store-dir', '/kv'],
        ...['--kv-transfer-config', JSON.stringify(given)],
      ]);
      const config = JSON.parse(wordAfter(runScript(text)[0]!.words, '--kv-transfer-config')!);
      return { extra: config.kv_connector_extra_config, isLost: /^# - --store-dir/m.test(text) };
    };
    const tier = { type: 'fs', root_dir: '/kv' };
    expect(await withExtra({ cpu_bytes_to_use: 1000 })).toMatchObject({
      extra: { spec_name: 'TieringOffloadingSpec', secondary_tiers: [tier] },
      isLost: false,
    });
    const threads = { ...tier, n_read_threads: 4 };
    const tiering = { spec_name: 'TieringOffloadingSpec', secondary_tiers: [threads] };
    const kept = await withExtra({ cpu_bytes_to_use: 1000, ...tiering });
    expect(kept.extra.secondary_tiers).toEqual([threads]);
    const refused = await withExtra({ cpu_bytes_to_use: 1000, store_threshold: 2 });
    expect(refused.extra).not.toHaveProperty('secondary_tiers');
    expect(refused.isLost).toBe(true);
  });

  const aibrix = 'aibrix_kvcache.integration.vllm.kv_connector';

  it.each([
    [{ kv_connector: 'AIBrixPDReuseConnector' }, `${aibrix}.aibrix_pd_reuse_connector`],
    [{ kv_connector: 'AIBrixOffloadingConnector' }, `${aibrix}.aibrix_offloading_connector_type1`],
    [{ kv_connector: 'AIBrixOffloadingConnector', kv_connector_module_path: 'mine_type2' }, 'mine_type2'],
  ])('names the module of %j, without which vLLM does not find it', async (given, module) => {
    const text = await exported([
      ...['--model', 'smollm2-135m', '--mode', 'unidirectional', '--store', '1GiB'],
      ...['--kv-transfer-config', JSON.stringify(given)],
    ]);
    expect(JSON.parse(wordAfter(runScript(text)[0]!.words, '--kv-transfer-config')!)).toMatchObject({
      kv_connector: given.kv_connector,
      kv_connector_module_path: module,
    });
  });

  it.each([
    ['LMCacheConnectorV1', 'LMCACHE_*'],
    ['AIBrixOffloadingConnectorV1Type2', 'AIBRIX_KV_CACHE_OL_*'],
  ])('says that %s takes its store from the environment', async (kv_connector, variables) => {
    const text = await exported([
      ...['--model', 'smollm2-135m', '--mode', 'unidirectional', '--store', '1GiB'],
      ...['--kv-transfer-config', JSON.stringify({ kv_connector })],
    ]);
    const words = text.replace(/\s*#\s+/g, ' ');
    expect(words).toContain(`from the environment: set ${variables} for each engine`);
    expect(words).not.toContain('name one in --kv-transfer-config');
  });

  it("translates --all-full-kv to vLLM's option without a remark", async () => {
    const text = await exported(['--model', 'gemma-3-1b', '--all-full-kv']);
    expect(text).toContain('--disable-hybrid-kv-cache-manager');
    expect(text).not.toContain('--all-full-kv');
  });

  it('lists options that it cannot carry over, and keeps extra connector settings', async () => {
    const config =
      '{"kv_connector":"NixlConnector","engine_id":"x","kv_connector_extra_config":{"backends":["UCX"]}}';
    const text = await exported([
      ...['--model', 'smollm2-135m', '--link', '10gbe', '--kv-dtype', 'f32', '--kv-transfer-config', config],
    ]);
    expect(text).toMatch(/^# - --link \("10gbe"\): /m);
    expect(text).toMatch(/^# - --kv-dtype \("f32"\): /m);
    expect(text).toMatch(/^# - --token-check \(true\): /m);
    const kv = JSON.parse(wordAfter(runScript(text)[1]!.words, '--kv-transfer-config')!);
    expect(kv.kv_connector_extra_config.backends).toEqual(['UCX']);
    expect(kv.engine_id).toBeUndefined();
    const comments = text.split('\n').filter((line) => line.startsWith('#'));
    expect(Math.max(...comments.map(widthOf))).toBeLessThanOrEqual(80);
  });
});

it('--json prints the commands and files as data', async () => {
  const plan = JSON.parse(await exported(['--model', 'smollm2-135m', '--mode', 'bidirectional', '--json']));
  expect(plan.modes[0].commands.map((c: { argv: string[] }) => c.argv[1])).toEqual([
    ...['serve', 'serve', 'disagg_proxy_multiturn.py'],
  ]);
  expect(plan.benchmark.argv).toContain('workload.json');
  expect(JSON.parse(plan.file.content).filetype).toBe('generate_conversations');
  expect(plan.not_exported).toEqual([
    { option: '--token-check', value: true, reason: expect.stringContaining('vLLM pulls') },
  ]);
});

it('with a connector that only knows a store, settings of what engines read from each other are not exported', async () => {
  const connector = JSON.stringify({ kv_connector: 'OffloadingConnector' });
  const line = ['--model', 'smollm2-135m', '--store', '1GiB', '--kv-transfer-config', connector, '--json'];
  const reason = expect.stringContaining('through the store only');
  const plan = JSON.parse(await exported([...line, '--threshold', '9', '--ttl', '20']));
  expect(plan.not_exported).toEqual([
    { option: '--threshold', value: 9, reason },
    { option: '--ttl', value: 20, reason },
  ]);
});

it('a preset with generated weights is refused, and others are named', async () => {
  const world = fakeWorld();
  expect(await main(['export', 'vllm', '--model', 'nano'], world.deps)).toBe(2);
  expect(world.err()).toMatch(/nano has random weights.*smollm2-135m, qwen2.5-0.5b, llama-3.2-1b/);
});

it.each(["it's", '', 'a b', '$(x)', '`x`', '"', '\\', 'a\nb', '--plain=1', "'''", 'é*?[]{}~!'])(
  'a shell reads %j back unchanged',
  (word) => {
    expect(runScript(`vllm ${quote(word)}`)[0]!.words).toEqual(['vllm', word]);
    execFileSync('bash', ['-c', writeFileText('x y', word)], { cwd: directory });
    expect(readFileSync(path.join(directory, 'x y'), 'utf8')).toBe(`${word}\n`);
  },
);
