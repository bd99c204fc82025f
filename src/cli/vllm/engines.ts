/** Turns a configuration into `vllm serve` commands, with every setting that vLLM also has under vLLM's name. */
import { isNixl } from '../../config/connectors.ts';
import {
  nixlExtraSchema,
  type OffloadingExtra,
  offloadingExtraSchema,
  TIERING,
} from '../../config/kv-connectors.ts';
import { type KvTransferConfig, kvTransferConfigSchema, namedConnectors } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import type { RunConfig, RunKey } from '../../config/run.ts';
import { namesIn } from '../../config/serve-schema.ts';
import { ConfigError } from '../../errors.ts';
import { fleetOf, type Seat } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { isPreset, presetNames } from '../../model/architecture/presets.ts';
import { checkPorts, enginePorts } from '../../server/http/ports.ts';

export interface VllmCommand {
  /** A short description. */
  what: string;
  env: Readonly<Record<string, string>>;
  argv: readonly string[];
}

export const HOST = 'localhost';
const DEFAULT_PORTS = { router: 8000, prefill: 8100, decode: 8200 } as const;

/** The proxy's port, as of `kvferry serve`. For 0 (any free port) the default is used, because commands need a fixed port. */
export const routerPort = ({ port }: RunConfig): number => port || DEFAULT_PORTS.router;

/** Model names for clients; empty: vLLM's name. */
export const servedNames = (config: RunConfig): string[] => namesIn(config.servedModelName);

/** Side channel port of the first engine (vLLM's default); others use the following ports, because engines may share a host. */
const SIDE_CHANNEL_PORT = 5600;

/** Published chat models with the shapes of the presets. vLLM's chat endpoint needs a chat template. */
const HUGGING_FACE: Readonly<Record<string, string>> = {
  'smollm2-135m': 'HuggingFaceTB/SmolLM2-135M-Instruct',
  'qwen2.5-0.5b': 'Qwen/Qwen2.5-0.5B-Instruct',
  'llama-3.2-1b': 'meta-llama/Llama-3.2-1B-Instruct',
  'gemma-3-270m': 'google/gemma-3-270m-it',
  'gemma-3-1b': 'google/gemma-3-1b-it',
};

/** Whether the model is a preset with random weights and no published counterpart, so that vLLM cannot load it. */
export const isHereOnly = (model: string): boolean =>
  model !== 'recall' && HUGGING_FACE[model] === undefined && isPreset(model);

/** The model's name in vLLM. Throws ConfigError for a preset that exists only in kvferry. */
export function vllmModel(model: string): string {
  if (model === 'recall') return 'models/recall';
  if (!isHereOnly(model)) return HUGGING_FACE[model] ?? model;
  const others = presetNames.filter((name) => HUGGING_FACE[name] !== undefined);
  throw new ConfigError(
    `${model} has random weights and exists only in kvferry: choose a model that vLLM can load, with --model ${others.join(', ')}, recall or a Hugging Face directory`,
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
    const argv = serve('decode', routerPort(config), {}, []);
    return [{ what: 'the only engine, on the port of the proxy', env: {}, argv }];
  }
  const placed = placesOf(config);
  if (placed.length === 0)
    throw new ConfigError(
      `the fleet has only engines that do both, and ${mode} needs P and D: give a roleset P and D, or use --mode monolithic`,
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
      argv: serve(role, port, own, transferOption(transferConfig(config, mode, role))),
    };
  });
}

/**
 * The P and D engines with their ports, as `kvferry serve` assigns them. For 0 (any free port) an engine gets the next port
 * from its role's default that nothing else uses. Throws ConfigError for a port that two share.
 */
function placesOf(config: RunConfig): { role: 'prefill' | 'decode'; own: Seat['own']; port: number }[] {
  const { seats } = fleetOf(config);
  const given = enginePorts(seats, { prefill: config.prefillPort, decode: config.decodePort });
  const router = routerPort(config);
  const taken = new Set([router, ...given]);
  const free = (first: number): number => {
    let port = first;
    while (taken.has(port)) port++;
    taken.add(port);
    return port;
  };
  const placed = seats
    .map(({ name, role, own, combined }, i) => {
      return { name, role, own, combined, port: given[i] || free(DEFAULT_PORTS[role]) };
    })
    .filter(({ combined }) => !combined);
  checkPorts([...placed, { name: 'router', port: router }]);
  return placed;
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
      ...['python', 'disagg_proxy_multiturn.py', '--host', '0.0.0.0', '--port', String(routerPort(config))],
      ...pairs('prefill', 'prefiller'),
      ...pairs('decode', 'decoder'),
    ],
  };
}

/** Sampling of requests that do not set it. */
export const samplingOf = ({ temperature, topP, topK }: RunConfig): Readonly<Record<string, number>> => ({
  temperature,
  top_p: topP,
  top_k: topK,
});

/** Options of both roles. */
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
    // Requests without sampling parameters are sampled as in kvferry, not as the model's files suggest.
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

/** The user's --kv-transfer-config, completed with the active settings, for an engine of the role. */
export function transferConfig(
  config: RunConfig,
  mode: Mode,
  role: 'prefill' | 'decode',
): Record<string, unknown> {
  const given = kvTransferConfigSchema.parse(config.kvTransferConfig ?? {});
  return { ...inForce(given, config, mode, role), kv_load_failure_policy: config.loadFailurePolicy };
}

export const transferOption = (transfer: Readonly<Record<string, unknown>>): string[] => [
  '--kv-transfer-config',
  JSON.stringify(transfer),
];

type NamedConnector = Pick<
  KvTransferConfig,
  'kv_connector' | 'kv_connector_extra_config' | 'kv_connector_module_path' | 'engine_id'
>;

/** For vLLM, NIXL's kv_both is deprecated since 0.23. Other connectors save and load in either role. */
const kvRole = ({ kv_connector }: NamedConnector, role: 'prefill' | 'decode') => {
  if (!isNixl(kv_connector)) return 'kv_both';
  return role === 'prefill' ? 'kv_producer' : 'kv_consumer';
};

/** A connector, or each connector in its list, with the active settings. vLLM wants a kv_role of each. */
function inForce(
  { engine_id: _, ...given }: NamedConnector,
  config: RunConfig,
  mode: Mode,
  role: 'prefill' | 'decode',
): NamedConnector {
  const { kv_connector_extra_config: extra = {} } = given;
  const one = { ...given, kv_role: kvRole(given, role) };
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
        ...tiering(config, offloadingExtraSchema.parse(extra)),
      });
    case 'MultiConnector':
      // The composition exists only in kvferry.
      return withExtra({
        connectors: (extra.connectors as NamedConnector[]).map((each) => inForce(each, config, mode, role)),
      });
    case 'AIBrixOffloadingConnector':
    case 'AIBrixPDReuseConnector':
      return {
        ...one,
        kv_connector_module_path: one.kv_connector_module_path ?? AIBRIX_MODULES[one.kv_connector],
      };
    default:
      return one;
  }
}

/** Where AIBrix's package, which no longer patches vLLM, has its classes. */
const AIBRIX_MODULES = {
  AIBrixOffloadingConnector: 'aibrix_kvcache.integration.vllm.kv_connector.aibrix_offloading_connector_type1',
  AIBrixPDReuseConnector: 'aibrix_kvcache.integration.vllm.kv_connector.aibrix_pd_reuse_connector',
};

/** The folder below the store as vLLM's tier of type fs; null if there is none, or where vLLM refuses tiers. */
export function tiering(
  { storeDir }: RunConfig,
  { store_threshold, secondary_tiers }: OffloadingExtra,
): object | null {
  if (storeDir === null || store_threshold >= 2) return null;
  const tier = { type: 'fs', ...secondary_tiers[0], root_dir: storeDir };
  return { spec_name: TIERING, secondary_tiers: [tier] };
}

/** Whether vLLM's store also has the eviction policy. */
const hasEviction = ({ storeEviction }: RunConfig): boolean =>
  storeEviction === 'lru' || storeEviction === 'arc';

export const connectorsOf = ({ kvTransferConfig }: RunConfig) =>
  namedConnectors(kvTransferConfigSchema.parse(kvTransferConfig ?? {}));

/** Store settings that the connectors in --kv-transfer-config carry over. */
export function carriedOfStore(config: RunConfig): readonly RunKey[] {
  const { offloading } = connectorsOf(config);
  if (offloading?.name !== 'OffloadingConnector') return [];
  return [
    'store',
    'offloadPromptOnly',
    ...(hasEviction(config) ? (['storeEviction'] as const) : []),
    ...(tiering(config, offloading.extra) ? (['storeDir'] as const) : []),
  ];
}
