/**
 * vLLM's KV transfer vocabulary: kv_transfer_params as they travel between router, P and D, and --kv-transfer-config as
 * a user writes it. Field names are the wire's. Source: vLLM, vllm/config/kv_transfer.py and the NIXL connector.
 */
import { z } from 'zod';
import type { CostProfile } from './cost-profile.ts';

/**
 * What decides whether P pulls what D offers: vLLM's fixed threshold, predicted costs, or nothing (always, never).
 * 'always' and 'never' are for one request: to measure both.
 */
export const PULL_POLICIES = ['threshold', 'cost-aware', 'always', 'never'] as const;
export type PullPolicyName = (typeof PULL_POLICIES)[number];

const blockIds = z.array(z.array(z.number().int().nonnegative()));

/** Unknown keys pass through untouched: routers and other connectors add their own. */
export const kvTransferParamsSchema = z.looseObject({
  do_remote_decode: z.boolean().default(false),
  do_remote_prefill: z.boolean().default(false),
  remote_block_ids: blockIds.nullish(),
  remote_engine_id: z.string().nullish(),
  remote_request_id: z.string().nullish(),
  remote_host: z.string().nullish(),
  remote_port: z.number().int().nullish(),
  tp_size: z.number().int().nullish(),
  /** Tokens with valid KV at the holder. */
  remote_num_tokens: z.number().int().nonnegative().nullish(),
  /** Holder's clock, seconds; D only. */
  remote_blocks_expiry_time: z.number().nullish(),
  /** Ours: all of the holder's token ids. A pull ends at the first one that differs; the holder serves nobody who tells others. */
  remote_token_ids: z.array(z.number().int().nonnegative()).nullish(),
  /** Ours: requests that the holder served when this one set out; from the router. */
  remote_num_requests: z.number().int().nonnegative().nullish(),
  /** Ours: how this request's pull from D is decided, in place of the engine's own policy. */
  pull_policy: z.enum(PULL_POLICIES).nullish(),
  /** Ours, and the router's own: D reads P's blocks while P computes them. To P and to D; without remote_block_ids. */
  streamed: z.boolean().nullish(),
  /** To a connector with a store: tokens of this request that it saves and loads at most; 0: none. */
  max_offload_tokens: z.number().int().nonnegative().nullish(),
  max_load_tokens: z.number().int().nonnegative().nullish(),
});

export type KvTransferParams = z.infer<typeof kvTransferParamsSchema>;

/** P's side of a streamed hand-over. */
export const isStreamedPrefill = (params: KvTransferParams | null): boolean =>
  params?.streamed === true && params.do_remote_decode;

const vllmFlag = z.union([
  z.boolean(),
  z.enum(['True', 'False', 'true', 'false']).transform((s) => /true/i.test(s)),
]);

const extraConfigSchema = z.strictObject({
  bidirectional_kv_xfer: vllmFlag.default(false),
  kv_recompute_threshold: z.coerce.number().int().nonnegative().default(64),
  /** Seconds D holds a finished request's blocks for P. */
  decoder_kv_blocks_ttl: z.number().positive().default(480),
  /** Seconds P holds blocks for D; renewed by heartbeats. */
  kv_lease_duration: z.number().positive().default(30),
  enforce_handshake_compat: vllmFlag.default(true),
  /** Accepted and without meaning here: there is one transport, and the layout is an option of its own. */
  backends: z.array(z.string()).optional(),
  num_threads: z.number().int().optional(),
  enable_cross_layers_blocks: vllmFlag.optional(),
});

/** Every connector that there is; src/connector/registry.ts says what makes each. */
export const CONNECTOR_NAMES = ['NixlConnector', 'NixlPullConnector', 'OffloadingConnector'] as const;
export type ConnectorName = (typeof CONNECTOR_NAMES)[number];

export const kvTransferConfigSchema = z.strictObject({
  kv_connector: z.enum(CONNECTOR_NAMES).default('NixlConnector'),
  engine_id: z.string().optional(),
  kv_role: z.enum(['kv_producer', 'kv_consumer', 'kv_both']).default('kv_both'),
  kv_load_failure_policy: z.enum(['fail', 'recompute']).default('fail'),
  kv_connector_extra_config: extraConfigSchema.prefault({}),
  /** Accepted and without meaning here, as for NIXL itself. */
  kv_buffer_device: z.enum(['cuda', 'cpu']).optional(),
  kv_buffer_size: z.number().optional(),
  kv_rank: z.number().int().nullish(),
  kv_parallel_size: z.number().int().optional(),
  kv_ip: z.string().optional(),
  kv_port: z.number().int().optional(),
  enable_permute_local_kv: vllmFlag.optional(),
});

export type KvTransferConfig = z.infer<typeof kvTransferConfigSchema>;

/** In the units the code uses. Which connector is in force, and an object of its own for each that has settings. */
export interface ConnectorConfig {
  name: ConnectorName;
  loadFailurePolicy: 'fail' | 'recompute';
  nixl: NixlConfig;
  /** Absent: the defaults. */
  offloading?: OffloadingConfig;
}

export interface NixlConfig {
  bidirectional: boolean;
  /** Tokens; a D→P pull of fewer is recomputed instead. 0 always pulls. */
  recomputeThreshold: number;
  decoderTtlMs: number;
  leaseMs: number;
  enforceHandshakeCompat: boolean;
  /** Pull no further than the first token that differs from the prompt, and serve no READ of other tokens. false is vLLM's behaviour. */
  tokenCheck: boolean;
  /** What costs decide by, in place of the threshold; null or absent: the threshold decides. */
  costProfile?: CostProfile | null;
}

/** vLLM's OffloadingConnector, in the units the code uses. */
export interface OffloadingConfig {
  /** Loads come in whole chunks of so many blocks. */
  blocksPerChunk: number;
  /** A block is saved when it was asked for so often; below 2 at once. */
  storeThreshold: number;
  /** Blocks whose askings are counted. */
  maxTrackerSize: number;
  /** What is generated is not saved. */
  promptOnly: boolean;
  /** P leaves its prompt in the store for D. */
  handsOver: boolean;
}

export const OFFLOADING_DEFAULTS: OffloadingConfig = {
  blocksPerChunk: 1,
  storeThreshold: 0,
  maxTrackerSize: 64_000,
  promptOnly: true,
  handsOver: true,
};

/** Where a cluster's store is found by its engines; as with their own ports no socket is opened. vLLM's p2p tier has 5710. */
export const STORE_ADDRESS = { engineId: 'store', host: 'localhost', port: 5710 } as const;
