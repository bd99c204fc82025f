/**
 * vLLM's KV transfer formats: kv_transfer_params, which router, P and D exchange, and --kv-transfer-config, which users
 * write. Field names are those on the wire. Source: vLLM, vllm/config/kv_transfer.py and the NIXL connector.
 */

import { z } from 'zod';
import { CONNECTOR_NAMES, type ConnectorName, isNixl, type OffloadingConfig } from './connectors.ts';
import type { CostProfile } from './cost-profile.ts';
import {
  aibrixExtraSchema,
  COMPOSITIONS,
  type Composition,
  lmcacheExtraSchema,
  type NixlExtra,
  nixlExtraSchema,
  type OffloadingExtra,
  offloadingExtraSchema,
  vllmFlag,
} from './kv-connectors.ts';
import type { TokenIds } from './token-ids.ts';

/**
 * How P decides whether to pull what D offers: vLLM's fixed threshold, predicted costs, or unconditionally (always,
 * never). 'always' and 'never' are set per request, to measure both.
 */
export const PULL_POLICIES = ['threshold', 'cost-aware', 'always', 'never'] as const;
export type PullPolicyName = (typeof PULL_POLICIES)[number];

const blockIds = z.array(z.array(z.number().int().nonnegative()));

/** Unknown keys are passed through: routers and other connectors add their own. */
export const kvTransferParamsSchema = z.looseObject({
  do_remote_decode: z.boolean().default(false),
  do_remote_prefill: z.boolean().default(false),
  remote_block_ids: blockIds.nullish(),
  remote_engine_id: z.string().nullish(),
  remote_request_id: z.string().nullish(),
  remote_host: z.string().nullish(),
  remote_port: z.number().int().nullish(),
  tp_size: z.number().int().nullish(),
  /** Tokens with valid KV at the holder. The limit is that of the claim's field. */
  remote_num_tokens: z.number().int().nonnegative().max(0xffffffff).nullish(),
  /** Seconds on the holder's clock; D only. */
  remote_blocks_expiry_time: z.number().nullish(),
  /** kvferry: all token ids of the holder. A pull ends at the first that differs; the holder refuses READs that name others. */
  remote_token_ids: z
    .array(z.number().int().nonnegative())
    .nullable()
    .transform((ids): TokenIds | null => ids)
    .optional(),
  /** kvferry: requests that the holder was serving when this one was sent; set by the router. */
  remote_num_requests: z.number().int().nonnegative().nullish(),
  /** kvferry: pull policy for this request, instead of the engine's. */
  pull_policy: z.enum(PULL_POLICIES).nullish(),
  /** kvferry, set by the router for P and D: D reads P's blocks while P computes them. Without remote_block_ids. */
  streamed: z.boolean().nullish(),
  /** kvferry: tokens that a store had before P began. */
  remote_store_num_tokens: z.number().int().nonnegative().nullish(),
  /** kvferry: P's last offer to a store that contains blocks of this request. */
  remote_store_offer: z.number().int().nonnegative().nullish(),
  /** For a connector with a store: most tokens of this request to save and to load; 0: none. */
  max_offload_tokens: z.number().int().nonnegative().nullish(),
  max_load_tokens: z.number().int().nonnegative().nullish(),
});

export type KvTransferParams = z.infer<typeof kvTransferParamsSchema>;

/** Connectors that a MultiConnector can contain. */
export type SingleConnectorName = Exclude<ConnectorName, 'MultiConnector'>;
const SINGLE_NAMES = CONNECTOR_NAMES.filter((name) => name !== 'MultiConnector') as [
  SingleConnectorName,
  ...SingleConnectorName[],
];

/** Fields that every connector accepts. Some have no effect here, nor with NIXL itself. */
const around = {
  /** Where vLLM finds the connector's class, if it is not one of its own. */
  kv_connector_module_path: z.string().nullish(),
  engine_id: z.string().optional(),
  kv_role: z.enum(['kv_producer', 'kv_consumer', 'kv_both']).default('kv_both'),
  kv_load_failure_policy: z.enum(['fail', 'recompute']).default('fail'),
  kv_buffer_device: z.enum(['cuda', 'cpu']).optional(),
  kv_buffer_size: z.number().optional(),
  kv_rank: z.number().int().nullish(),
  kv_parallel_size: z.number().int().optional(),
  kv_ip: z.string().optional(),
  kv_port: z.number().int().optional(),
  enable_permute_local_kv: vllmFlag.optional(),
};

const extra = z.record(z.string(), z.unknown()).default({});

const singleSchema = z
  .strictObject({ kv_connector: z.enum(SINGLE_NAMES), ...around, kv_connector_extra_config: extra })
  .superRefine(checkExtra);

const wantedConnectors =
  'wanted a list, such as [{"kv_connector":"NixlConnector"},{"kv_connector":"OffloadingConnector"}]';

const multiExtraSchema = z.strictObject({
  connectors: z
    .array(singleSchema, { error: wantedConnectors })
    .min(1, { error: wantedConnectors })
    .refine((list) => new Set(list.map(({ kv_connector }) => isNixl(kv_connector))).size === list.length, {
      error: 'wanted a list with at most one NixlConnector and one connector with a store',
    }),
  /** kvferry. */
  composition: z.enum(COMPOSITIONS).default('first-hit'),
});

export const kvTransferConfigSchema = z
  .strictObject({
    kv_connector: z.enum(CONNECTOR_NAMES).default('NixlConnector'),
    ...around,
    kv_connector_extra_config: extra,
  })
  .superRefine(checkExtra);

export type KvTransferConfig = z.infer<typeof kvTransferConfigSchema>;

function extraSchemaOf(name: ConnectorName) {
  switch (name) {
    case 'NixlConnector':
    case 'NixlPullConnector':
      return nixlExtraSchema;
    case 'OffloadingConnector':
      return offloadingExtraSchema;
    case 'AIBrixOffloadingConnector':
    case 'AIBrixOffloadingConnectorV1Type1':
    case 'AIBrixOffloadingConnectorV1Type2':
    case 'AIBrixOffloadingConnectorV1Type3':
    case 'AIBrixPDReuseConnector':
      return aibrixExtraSchema;
    case 'LMCacheConnectorV1':
    case 'LMCacheConnectorV1Dynamic':
      return lmcacheExtraSchema;
    case 'MultiConnector':
      return multiExtraSchema;
  }
}

/** Keys of a connector's own settings. */
export const extraKeysOf = (name: unknown): string[] =>
  Object.keys(extraSchemaOf(CONNECTOR_NAMES.find((known) => known === name) ?? 'NixlConnector').shape);

function checkExtra(
  config: { kv_connector: ConnectorName; kv_connector_extra_config: Record<string, unknown> },
  context: z.RefinementCtx,
): void {
  const result = extraSchemaOf(config.kv_connector).safeParse(config.kv_connector_extra_config);
  for (const { path, message, ...issue } of result.error?.issues ?? [])
    context.addIssue({ ...issue, path: ['kv_connector_extra_config', ...path], message } as never);
}

/** The connectors that a configuration names, with all defaults: itself, or those in its list. At most one of each kind. */
export interface NamedConnectors {
  /** null: the configuration names a single connector. */
  composition: Composition | null;
  names: readonly SingleConnectorName[];
  /** null: no NIXL connector. */
  nixl: { given: Readonly<Record<string, unknown>>; extra: NixlExtra } | null;
  /** The connector that uses a store; null: none. */
  offloading: {
    name: SingleConnectorName;
    saves: OffloadingConfig['saves'];
    given: Readonly<Record<string, unknown>>;
    extra: OffloadingExtra;
  } | null;
}

export function namedConnectors(config: KvTransferConfig): NamedConnectors {
  const multi =
    config.kv_connector === 'MultiConnector'
      ? multiExtraSchema.parse(config.kv_connector_extra_config)
      : null;
  const all = multi?.connectors ?? [singleSchema.parse(config)];
  const nixl = all.find(({ kv_connector }) => isNixl(kv_connector))?.kv_connector_extra_config;
  const offloading = all.find(({ kv_connector }) => !isNixl(kv_connector));
  return {
    composition: multi?.composition ?? null,
    names: all.map(({ kv_connector }) => kv_connector),
    nixl: nixl ? { given: nixl, extra: nixlExtraSchema.parse(nixl) } : null,
    offloading: offloading ? offloadingOf(offloading) : null,
  };
}

/** Whether engines read from each other under a report's settings. With a store's connector alone, all KV goes through the store. */
export function readsFromPeers({ kvTransferConfig }: Readonly<Record<string, unknown>>): boolean {
  const config = kvTransferConfigSchema.safeParse(kvTransferConfig).data;
  return config === undefined || namedConnectors(config).nixl !== null;
}

/** Why nothing is pulled from D otherwise. */
export const NO_PEERS = 'this connector moves KV through the store only, so P reads nothing from D';

function offloadingOf(single: z.infer<typeof singleSchema>): NonNullable<NamedConnectors['offloading']> {
  const { kv_connector: name, kv_connector_extra_config: given } = single;
  return {
    name,
    saves: isAibrixType1(single) ? 'whole' : 'blocks',
    given,
    extra: offloadingExtraOf(name, given),
  };
}

/** AIBrix's classes have the same name without a version, and their modules have the type; its docs name no module. */
const isAibrixType1 = ({
  kv_connector: name,
  kv_connector_module_path: module,
}: z.infer<typeof singleSchema>): boolean =>
  name === 'AIBrixOffloadingConnectorV1Type1' ||
  (name === 'AIBrixOffloadingConnector' && !/_type[23]$/.test(module ?? ''));

/** Defaults for connectors whose settings are in the environment. */
const offloadingExtraOf = (name: ConnectorName, given: Readonly<Record<string, unknown>>): OffloadingExtra =>
  offloadingExtraSchema.parse(name === 'OffloadingConnector' ? given : {});

/** The active connector, with one object for each kind that has settings. In the units that the code uses. */
export interface ConnectorConfig {
  name: ConnectorName;
  loadFailurePolicy: 'fail' | 'recompute';
  nixl: NixlConfig;
  /** Absent: the defaults. */
  offloading?: OffloadingConfig;
  /** MultiConnector only. */
  multi?: { composition: Composition; names: readonly SingleConnectorName[] };
}

export interface NixlConfig {
  bidirectional: boolean;
  /** Tokens. P recomputes instead of pulling fewer from D. 0 always pulls. */
  recomputeThreshold: number;
  decoderTtlMs: number;
  leaseMs: number;
  enforceHandshakeCompat: boolean;
  /** Stop a pull at the first token that differs from the prompt, and refuse READs of other tokens. false is vLLM's behaviour. */
  tokenCheck: boolean;
  /** Profile of the cost-aware policy; null or absent: the threshold decides. */
  costProfile?: CostProfile | null;
}
