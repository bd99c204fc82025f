/** From a configuration to `vllm serve` lines: each of kvferry's settings that vLLM has too, under vLLM's name. */
import { nixlExtraSchema } from '../../config/kv-connectors.ts';
import { type KvTransferConfig, kvTransferConfigSchema, namedConnectors } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import type { RunConfig, RunKey } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { fleetOf, type Seat } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { isPreset, presetNames } from '../../model/presets.ts';

export interface VllmCommand {
  /** What it is, in a few words. */
  what: string;
  env: Readonly<Record<string, string>>;
  argv: readonly string[];
}

export const HOST = 'localhost';
const DEFAULT_PORTS = { router: 8000, prefill: 8100, decode: 8200 } as const;

/** Those of `kvferry serve`; a free one (0) can be known to nobody beforehand. */
export function portsOf(config: RunConfig): Record<keyof typeof DEFAULT_PORTS, number> {
  return {
    router: config.port || DEFAULT_PORTS.router,
    prefill: config.prefillPort[0] || DEFAULT_PORTS.prefill,
    decode: config.decodePort[0] || DEFAULT_PORTS.decode,
  };
}

/** Names under which clients know the model; none: what vLLM calls it. */
export const servedNames = (config: RunConfig): string[] =>
  config.servedModelName?.split(',').map((name) => name.trim()) ?? [];

/** vLLM's default for the first, and the next ones: engines may share a host. */
const SIDE_CHANNEL_PORT = 5600;

/** Trained for conversation, of the presets' shapes: vLLM's chat endpoint wants a chat template. */
const HUGGING_FACE: Readonly<Record<string, string>> = {
  'smollm2-135m': 'HuggingFaceTB/SmolLM2-135M-Instruct',
  'qwen2.5-0.5b': 'Qwen/Qwen2.5-0.5B-Instruct',
  'llama-3.2-1b': 'meta-llama/Llama-3.2-1B-Instruct',
  'gemma-3-270m': 'google/gemma-3-270m-it',
  'gemma-3-1b': 'google/gemma-3-1b-it',
};

/** A preset whose weights are generated, of a shape that nobody published: there is nothing that vLLM could load. */
export const isHereOnly = (model: string): boolean =>
  model !== 'recall' && HUGGING_FACE[model] === undefined && isPreset(model);

/** What vLLM calls the model. Throws ConfigError for a preset that exists here only. */
export function vllmModel(model: string): string {
  if (model === 'recall') return 'models/recall';
  if (!isHereOnly(model)) return HUGGING_FACE[model] ?? model;
  const others = presetNames.filter((name) => HUGGING_FACE[name] !== undefined);
  throw new ConfigError(
    `${model} has generated weights and exists here only: choose what vLLM can load, with --model ${others.join(', ')}, recall or a Hugging Face directory`,
  );
}

export function engineCommands(config: RunConfig, options: ClusterOptions, mode: Mode): VllmCommand[] {
  const model = vllmModel(config.model);
  const names = servedNames(config);
  const serve = (role: 'prefill' | 'decode', port: number, own: Seat['own'], more: readonly string[]) => [
    ...['vllm', 'serve', model, '--port', String(port)],
    ...(names.length > 0 ? ['--served-model-name', ...names] : []),
    ...sharedOptions(config, options),
    ...poolOptions(config, options, role, own),
    ...more,
  ];
  if (mode === 'monolithic') {
    const argv = serve('decode', portsOf(config).router, {}, []);
    return [{ what: 'the only engine, in the place of the proxy', env: {}, argv }];
  }
  const transfer = ['--kv-transfer-config', JSON.stringify(transferConfig(config, mode))];
  const placed = placesOf(config);
  if (placed.length === 0)
    throw new ConfigError(
      `the fleet has engines that do both only, and ${mode} wants P and D: give a roleset both, or take --mode monolithic`,
    );
  return placed.map(({ role, own, port }, gpu): VllmCommand => {
    const alone = placed.filter((other) => other.role === role).length === 1;
    const number = alone ? '' : ` ${placed.slice(0, gpu).filter((other) => other.role === role).length}`;
    return {
      what: role === 'prefill' ? `P${number}, the prefill engine` : `D${number}, the decode engine`,
      env: {
        CUDA_VISIBLE_DEVICES: String(gpu),
        VLLM_NIXL_SIDE_CHANNEL_HOST: HOST,
        VLLM_NIXL_SIDE_CHANNEL_PORT: String(SIDE_CHANNEL_PORT + gpu),
      },
      argv: serve(role, port, own, transfer),
    };
  });
}

/** Those that prefill or decode, P first, each with its port: the given one, or the next after the role's first. */
function placesOf(config: RunConfig): { role: 'prefill' | 'decode'; own: Seat['own']; port: number }[] {
  const first = portsOf(config);
  const given = { prefill: config.prefillPort, decode: config.decodePort };
  const count = { prefill: 0, decode: 0 };
  return fleetOf(config)
    .seats.filter(({ combined }) => !combined)
    .map(({ role, own }) => {
      const i = count[role]++;
      return { role, own, port: given[role][i] || first[role] + i };
    });
}

export function proxyCommand(config: RunConfig): VllmCommand {
  const places = placesOf(config);
  const pairs = (role: 'prefill' | 'decode', option: string) => {
    const ports = places.filter((place) => place.role === role).map(({ port }) => String(port));
    const s = ports.length > 1 ? 's' : '';
    return [`--${option}-host${s}`, ...ports.map(() => HOST), `--${option}-port${s}`, ...ports];
  };
  return {
    what: "the proxy (vLLM's examples/disaggregated/disaggregated_serving)",
    env: {},
    argv: [
      ...[
        'python',
        'disagg_proxy_multiturn.py',
        '--host',
        '0.0.0.0',
        '--port',
        String(portsOf(config).router),
      ],
      ...pairs('prefill', 'prefiller'),
      ...pairs('decode', 'decoder'),
    ],
  };
}

/** Of requests that say nothing of it. */
export const samplingOf = ({ temperature, topP, topK }: RunConfig): Readonly<Record<string, number>> => ({
  temperature,
  top_p: topP,
  top_k: topK,
});

/** Of both roles. */
export function sharedOptions(config: RunConfig, options: ClusterOptions): string[] {
  const budget = config.maxNumBatchedTokens;
  return [
    ...['--block-size', String(options.blockSize)],
    ...['--max-model-len', String(options.maxModelLen)],
    ...['--max-num-seqs', String(options.maxNumSeqs)],
    ...(budget === null ? [] : ['--max-num-batched-tokens', String(budget)]),
    ...['--dtype', options.weightDtype === 'f16' ? 'float16' : 'float32'],
    ...['--seed', String(config.seed)],
    ...(config.allFullKv ? ['--disable-hybrid-kv-cache-manager'] : []),
    ...(config.kvCacheMetrics
      ? ['--kv-cache-metrics', '--kv-cache-metrics-sample', String(config.kvCacheMetricsSample)]
      : []),
    // Requests that say nothing of sampling are sampled as here, not as the model's files suggest.
    ...['--generation-config', 'vllm', '--override-generation-config', JSON.stringify(samplingOf(config))],
  ];
}

function poolOptions(
  config: RunConfig,
  options: ClusterOptions,
  role: 'prefill' | 'decode',
  own: Seat['own'],
): string[] {
  const blocks = own.numBlocks ?? (role === 'prefill' ? config.pBlocks : config.dBlocks);
  return [
    (own.enablePrefixCaching ?? options[role].enablePrefixCaching)
      ? '--enable-prefix-caching'
      : '--no-enable-prefix-caching',
    ...(blocks === null ? [] : ['--num-gpu-blocks-override', String(blocks)]),
  ];
}

/** What the user gave as --kv-transfer-config, with the settings in force put in. */
export function transferConfig(config: RunConfig, mode: Mode): Record<string, unknown> {
  const { engine_id: _, ...given } = kvTransferConfigSchema.parse(config.kvTransferConfig ?? {});
  return { ...inForce(given, config, mode), kv_load_failure_policy: config.loadFailurePolicy };
}

type NamedConnector = Pick<KvTransferConfig, 'kv_connector' | 'kv_connector_extra_config'>;

/** A connector with what is in force, or each of those that it is made of. */
function inForce(one: NamedConnector, config: RunConfig, mode: Mode): NamedConnector {
  const { kv_connector_extra_config: extra = {} } = one;
  const withExtra = (more: Record<string, unknown>) => ({ ...one, kv_connector_extra_config: more });
  switch (one.kv_connector) {
    case 'NixlConnector':
    case 'NixlPullConnector':
      return withExtra({
        ...nixlExtraSchema.parse(extra),
        bidirectional_kv_xfer: mode === 'bidirectional',
        kv_recompute_threshold: config.threshold,
        decoder_kv_blocks_ttl: config.ttl,
        kv_lease_duration: config.lease,
      });
    case 'OffloadingConnector':
      return withExtra({
        ...extra,
        cpu_bytes_to_use: config.store,
        offload_prompt_only: config.offloadPromptOnly,
        ...(hasEviction(config) && { eviction_policy: config.storeEviction }),
      });
    case 'MultiConnector':
      // How they share a load is a choice of ours only.
      return withExtra({
        connectors: (extra.connectors as NamedConnector[]).map((each) => inForce(each, config, mode)),
      });
    default:
      return one;
  }
}

/** Whether vLLM's store has it too. */
const hasEviction = ({ storeEviction }: RunConfig): boolean =>
  storeEviction === 'lru' || storeEviction === 'arc';

const connectorsOf = ({ kvTransferConfig }: RunConfig) =>
  namedConnectors(kvTransferConfigSchema.parse(kvTransferConfig ?? {}));

/** What is left out of --kv-transfer-config. */
export function connectorNotes(config: RunConfig): string[] {
  const { composition } = connectorsOf(config);
  if (composition === null || composition === 'first-hit') return [];
  return [
    `composition ${composition} is kvferry's own: vLLM's MultiConnector takes the first connector that has anything.`,
  ];
}

/** Settings of a store that the connectors of --kv-transfer-config carry over. */
export function carriedOfStore(config: RunConfig): readonly RunKey[] {
  const { offloading } = connectorsOf(config);
  if (offloading?.name !== 'OffloadingConnector') return [];
  return ['store', 'offloadPromptOnly', ...(hasEviction(config) ? (['storeEviction'] as const) : [])];
}
