/** The commands that a plan prints: read back, a simulation has every setting of the plan's own. */
import { describe, expect, it } from 'vitest';
import { exportSpec } from '../../src/cli/commands/export.ts';
import { planSpec } from '../../src/cli/commands/plan.ts';
import { simulateSpec } from '../../src/cli/commands/simulate.ts';
import { parseArguments } from '../../src/cli/options/arguments.ts';
import { readSettings } from '../../src/cli/options/settings.ts';
import {
  OF_DEVICES,
  refuseUnused,
  unusedBySimulate,
  unusualOptions,
} from '../../src/cli/options/unused-options.ts';
import { type Asking, commandsFor, modelNote } from '../../src/cli/plan/commands.ts';
import type { OnEngines } from '../../src/cli/plan/workload.ts';
import {
  fieldMeta,
  isUnusual,
  parseRunConfig,
  type RunConfigInput,
  type RunKey,
} from '../../src/config/run.ts';

/** Settings that all differ from their defaults: for a workload, and for a trace. */
const SETTINGS = {
  ...{ costs: "./my 'own'.json", seeds: 3, linkSharing: 'fair', kvBytesPerToken: 2048, thinkTime: 1500 },
  ...{ layout: 'contiguous', allFullKv: true, ttl: 60, lease: 7, link: '10e6,1ms', handover: 'streamed' },
  ...{ prefixCaching: false, tokenCheck: false, loadFailurePolicy: 'recompute' },
  kvTransferConfig: { kv_connector: 'NixlConnector', kv_connector_extra_config: { kv_lease_duration: 7 } },
  ...{ maxNumBatchedTokens: 4096, maxNumSeqs: 32, maxModelLen: 9000, kvDtype: 'f32', seed: 11 },
  ...{
    routingConfig: { 'prefix-cache': { imbalance: 9 } },
    routingModule: 'own.mjs',
    signalAge: 250,
    model: 'nano',
  },
  ...{ sloTtft: 1500, sloTpot: 40, store: 2 ** 26, storeEviction: 'lru', storePlace: 'remote' },
  ...{ storeDir: "anne's kv", storeDirSize: 2 ** 28, storeTtl: 90, storeWrite: 'EVICTED' },
  ...{ storeUrl: 'redis://localhost:6379', storePrefetch: 'best_effort', offloadPromptOnly: false },
} satisfies RunConfigInput;
const TRACED = {
  ...SETTINGS,
  ...{ trace: "it's.jsonl", traceFormat: 'mooncake', traceBlockSize: 256, traceScale: '1/4' },
  ...{ skipBad: true, conversationRate: 3 },
} satisfies RunConfigInput;

/** Settings that follow from the chosen fleet or the sample, or that do not affect results. */
const ELSEWHERE: readonly RunKey[] = [
  ...([
    'mode',
    'threshold',
    'routing',
    'blockSize',
    'pBlocks',
    'dBlocks',
    'jobs',
    'limit',
    'speedUp',
  ] as const),
  // Refused by plans, because they would change the simulation.
  ...(['budget', 'experiments'] as const),
];

const row = {
  ...({ prefill: 4, decode: 2, routing: 'prefix-cache', placement: 'replica' } as const),
  ...({ mode: 'bidirectional', threshold: 99 } as const),
};
const WHAT = ['bench', 'w.json', '--scale', '1'] as const;
const longest = 900;
const traceBlockSize = null;
const engine = { block_size: 128, p_blocks: 500, d_blocks: 600 };
const pools = { pBlocks: null, dBlocks: null };
const FLEET = JSON.stringify({ rolesets: [{ prefill: 2, decode: 1 }] });

const OWN = { default: { name: 'own', create() {} } };

/** The words of a line as a shell reads it, if nothing but single quotes is special. */
const words = (line: string): string[] =>
  [...line.matchAll(/(?:'[^']*'|\\'|[^\s'\\])+/g)].map(([word]) =>
    word.replaceAll(/'([^']*)'|\\'/g, (_, inside: string | undefined) => inside ?? "'"),
  );

async function readBack(line: string) {
  const parsed = parseArguments(words(line).slice(1), [simulateSpec]);
  if (parsed.kind !== 'command') throw new Error(`no command: ${line}`);
  const files = { readTextFile: async () => FLEET, importModule: async () => OWN, environment: () => null };
  const { config } = await readSettings(parsed.settings, null, files, parsed.spec);
  refuseUnused(unusualOptions(Object.keys(parsed.settings), config), unusedBySimulate(config));
  return config;
}

const inBoth = (key: RunKey): boolean =>
  [planSpec, simulateSpec].every(({ groups }) => groups.includes(fieldMeta(key).group)) &&
  !['bench', 'pages', 'junit', 'asserting', 'general', 'slo'].includes(fieldMeta(key).group);

describe('the commands of a plan', () => {
  it.each<[string, RunConfigInput, readonly string[]]>([
    ['a workload', SETTINGS, ['w.json', '--arrival-rate', '2', '--arrivals', '50']],
    ['a trace', TRACED, ['--trace', TRACED.trace, '--limit', '100', '--speed-up', '2']],
  ])('simulate with all settings of the plan for %s', async (_name, settings, workloadOptions) => {
    const config = parseRunConfig(settings);
    const [simulate] = commandsFor({ ...row, store_bytes: 2 ** 26 }, config, {
      ...{ workloadOptions, longest, traceBlockSize, engine, pools, file: 'a fleet.json' },
      onEngines: WHAT,
      traceBlockSize,
    });
    const again = await readBack(simulate!);
    const keys = (Object.keys(config) as RunKey[]).filter(
      (key) => inBoth(key) && !ELSEWHERE.includes(key) && !OF_DEVICES.includes(key),
    );
    const unusual = keys.filter((key) => isUnusual(key, config));
    // The settings above cover every key.
    const ofTraces = keys.filter((key) => fieldMeta(key).group === 'trace');
    expect(unusual).toEqual(settings === TRACED ? keys : keys.filter((key) => !ofTraces.includes(key)));
    const values = (from: typeof config) => Object.fromEntries(keys.map((key) => [key, from[key]]));
    expect(values(again)).toEqual(values(config));
    expect(again).toMatchObject({
      ...{ sloTtft: 1500, sloTpot: 40, threshold: 99, mode: ['bidirectional'], routing: ['prefix-cache'] },
      ...{
        blockSize: 128,
        pBlocks: 500,
        dBlocks: 600,
        modeOfFleet: 'replica',
      },
    });
  });

  const noFile = {
    workloadOptions: ['w.json', '--arrival-rate', '2'],
    onEngines: WHAT,
    traceBlockSize,
    longest,
    engine,
    pools,
    file: null,
  };

  it.each([
    ['pooled', { prefill: 4, decode: 2, fleet: null }],
    ['replica', { fleet: { rolesets: [{ prefill: 2 }, { prefill: 2 }] } }],
  ] as const)('run without a fleet file too, for %s placement', async (placement, engines) => {
    const config = parseRunConfig(SETTINGS);
    const commands = commandsFor({ ...row, placement, store_bytes: 2 ** 26 }, config, noFile);
    const { prefill, decode, fleet } = await readBack(commands[0]!);
    const rolesets = fleet && { rolesets: fleet.rolesets.map((each) => ({ prefill: each.prefill.length })) };
    expect({ prefill, decode, fleet: rolesets }).toMatchObject(engines);
  });

  it('do not contain the password of a store', () => {
    const storeUrl = 'redis://anne:hush-hush@kv.example:6379';
    const config = parseRunConfig({ ...SETTINGS, storeUrl });
    const commands = commandsFor({ ...row, store_bytes: 2 ** 26 }, config, noFile);
    for (const command of commands) expect(command).toContain('--store-url redis://kv.example:6379');
  });

  it('name the model to a cluster, or a placeholder if the model exists only here', () => {
    const exported = (model: string) => {
      const commands = commandsFor({ ...row, store_bytes: null }, parseRunConfig({ model }), noFile);
      return { line: commands[2], note: modelNote({ commands, model }) };
    };
    expect(exported('qwen2.5-0.5b')).toEqual({
      line: expect.stringMatching(/ --model qwen2.5-0.5b$/),
      note: null,
    });
    expect(exported('nano')).toEqual({
      line: expect.stringMatching(/ --model MODEL$/),
      note: expect.stringContaining('nano has random weights'),
    });
  });

  it('suggest a model in whose context the longest conversation fits', () => {
    const suggested = (tokens: number) => {
      const asking = { ...noFile, longest: tokens };
      const commands = commandsFor({ ...row, store_bytes: null }, parseRunConfig({ model: 'tiny' }), asking);
      return modelNote({ commands, model: 'tiny' });
    };
    expect(suggested(900)).toMatch(/such as smollm2-135m\.$/);
    expect(suggested(32_768)).toMatch(/such as gemma-3-270m\.$/);
    expect(suggested(123_783)).toMatch(/such as llama-3.2-1b\.$/);
    expect(suggested(200_000)).toMatch(/with a context of at least 200,000 tokens\.$/);
  });

  it('give engines the settings of the simulation, and those of the device', () => {
    const config = parseRunConfig({ ...SETTINGS, adapter: 'lavapipe', weightDtype: 'f32' });
    const workloadOptions = ['w.json', '--arrival-rate', '2'];
    const [simulate, bench] = commandsFor({ ...row, store_bytes: null }, config, {
      ...{ workloadOptions, longest, traceBlockSize, engine, pools, file: 'f.json' },
      onEngines: WHAT,
      traceBlockSize,
    });
    for (const option of [
      '--link 10e6,1ms',
      '--seed 11',
      '--max-num-batched-tokens 4096',
      '--no-token-check',
    ])
      for (const line of [simulate, bench]) expect(line).toContain(option);
    expect(bench).toContain('--adapter lavapipe');
    expect(bench).toMatch(/^kvferry bench w\.json --scale 1 --fleet f\.json/);
    expect(simulate).not.toContain('--adapter');
    for (const line of [simulate, bench]) expect(line).not.toContain('--store');
  });

  it('export the same fleet to a cluster, with its settings for pulling, caching and holds', async () => {
    const settings = { ...SETTINGS, kvTransferConfig: null, pBlocks: 500, model: 'qwen2.5-0.5b' };
    const written = {
      workloadOptions: [],
      onEngines: WHAT,
      traceBlockSize,
      longest,
      engine,
      pools: { pBlocks: 500, dBlocks: null },
    };
    const lines = commandsFor({ ...row, store_bytes: 2 ** 26 }, parseRunConfig(settings), {
      ...written,
      file: 'f.json',
    });
    const parsed = parseArguments(words(lines[2]!).slice(1), [exportSpec]);
    if (parsed.kind !== 'command') throw new Error(`no command: ${lines[2]}`);
    const files = { readTextFile: async () => FLEET, importModule: async () => OWN, environment: () => null };
    const { config } = await readSettings(parsed.settings, null, files, parsed.spec);
    expect(config).toMatchObject({
      ...{ mode: ['bidirectional'], threshold: 99, prefixCaching: false, pBlocks: 500, dBlocks: null },
      ...{ blockSize: 128, maxNumSeqs: 32, maxNumBatchedTokens: 4096, ttl: 60, lease: 7, store: 2 ** 26 },
      ...{ routing: ['prefix-cache'], routingConfig: SETTINGS.routingConfig, modeOfFleet: 'replica' },
    });
  });

  it('measure on engines what was planned for: a workload in one experiment, or the trace', () => {
    const given = { workloadOptions: [], longest, traceBlockSize, engine, pools, file: 'f.json' };
    const lineOf = (settings: RunConfigInput, onEngines: OnEngines | null) =>
      commandsFor({ ...row, store_bytes: null }, parseRunConfig(settings), { ...given, onEngines })[1];
    expect(lineOf({ model: 'nano' }, WHAT)).toMatch(
      /^kvferry bench w\.json --scale 1 --experiments prefix-caching --fleet f\.json/,
    );
    expect(lineOf(TRACED, ['replay', TRACED.trace])).toMatch(
      /^kvferry replay 'it'\\''s\.jsonl' --trace-format mooncake --trace-block-size 256 /,
    );
  });

  it('divide the threshold where replay divides the lengths', () => {
    const given = { workloadOptions: [], longest, file: null, traceBlockSize: 512 };
    const thresholds = (
      settings: RunConfigInput,
      pBlocks: number | null = null,
      threshold = 1024,
      blockSize = 128,
    ) =>
      commandsFor({ ...row, threshold, store_bytes: null }, parseRunConfig({ trace: 't', ...settings }), {
        ...{ ...given, pools: { pBlocks, dBlocks: null }, onEngines: ['replay', 't'] },
        engine: { ...engine, block_size: blockSize },
      }).map((line) => / --threshold (\d+)/.exec(line)?.[1]);
    expect(thresholds({})).toEqual(['1024', '32', '1024']);
    // Blocks of the plan's 128 tokens.
    expect(thresholds({}, 500)).toEqual(['1024', '256', '1024']);
    expect(thresholds({ traceScale: '1/4' })).toEqual(['1024', '1024', '1024']);
    expect(thresholds({}, null, 0)).toEqual(['0', '0', '0']);
    // replay refuses to make 512 tokens one block of 96, and takes any scale that is given.
    expect(thresholds({}, 500, 1024, 96)).toEqual(['1024', '1024']);
    expect(thresholds({ traceScale: '1/4' }, 500, 1024, 96)).toEqual(['1024', '1024', '1024']);
  });

  it('leave out the one for engines here if they cannot serve the workload', () => {
    const given = {
      workloadOptions: ['w.json'],
      longest,
      traceBlockSize,
      engine,
      pools,
      file: null,
      onEngines: null,
    };
    const lines = commandsFor({ ...row, store_bytes: null }, parseRunConfig({}), given);
    expect(lines.map((line) => line.split(' ')[1])).toEqual(['simulate', 'export']);
  });

  it('give engines only the pool sizes that the user gave, with their block size', () => {
    const lines = (pools: Asking['pools']) =>
      commandsFor({ ...row, store_bytes: null }, parseRunConfig({}), {
        ...noFile,
        workloadOptions: ['w.json'],
        pools,
      }).slice(0, 2);
    const [simulate, bench] = lines({ pBlocks: 500, dBlocks: null });
    expect(simulate).toContain('--block-size 128 --p-blocks 500 --d-blocks 600');
    expect(bench).toContain('--block-size 128 --p-blocks 500');
    expect(bench).not.toContain('--d-blocks');
    expect(lines({ pBlocks: null, dBlocks: 600 })[1]).toContain('--block-size 128 --d-blocks 600');
    expect(lines({ pBlocks: null, dBlocks: null })[1]).not.toMatch(/-blocks|--block-size/);
  });

  it('set --max-model-len for the longest conversation if it exceeds the default', () => {
    const given = { workloadOptions: [], traceBlockSize, engine, pools, file: 'f.json' };
    const lengths = (settings: RunConfigInput, tokens: number, onEngines: OnEngines = WHAT) =>
      commandsFor({ ...row, store_bytes: null }, parseRunConfig(settings), {
        ...{ ...given, onEngines, longest: tokens },
      }).map((line) => / --max-model-len (\d+)/.exec(line)?.[1] ?? null);
    const real = { model: 'qwen2.5-0.5b' };
    expect(lengths(real, 8192)).toEqual([null, null, null]);
    expect(lengths(real, 9000)).toEqual([null, '9000', '9000']);
    expect(lengths({ ...real, maxModelLen: 10_000 }, 9000)).toEqual(['10000', '10000', '10000']);
    expect(lengths({ ...real, trace: 't.jsonl' }, 9000, ['replay', 't.jsonl'])).toEqual([null, null, '9000']);
    expect(lengths({ model: 'tiny' }, 9000)).toEqual([null, null, '9000']);
  });
});
