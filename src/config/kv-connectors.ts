/**
 * kv_connector_extra_config, by connector. Keys, defaults and meanings are those of vLLM and of the systems that the
 * connectors come from (docs/store.md).
 */
import { z } from 'zod';
import { EVICTIONS } from './store.ts';

export const vllmFlag = z.union(
  [z.boolean(), z.enum(['True', 'False', 'true', 'false']).transform((s) => /true/i.test(s))],
  { error: 'wanted true or false' },
);

const count = 'wanted a whole number, 0 or more';
/** A number, or text that contains one. */
const vllmCount = z
  .union([z.number(), z.string().regex(/^\d+$/).transform(Number)], { error: count })
  .pipe(z.number().int({ error: count }).nonnegative({ error: count }));

export const nixlExtraSchema = z.strictObject({
  bidirectional_kv_xfer: vllmFlag.default(false),
  kv_recompute_threshold: vllmCount.default(64),
  /** Seconds D holds a finished request's blocks for P. */
  decoder_kv_blocks_ttl: z.number().positive().default(480),
  /** Seconds P holds blocks for D; heartbeats renew it. */
  kv_lease_duration: z.number().positive().default(30),
  enforce_handshake_compat: vllmFlag.default(true),
  /** Accepted but ignored: there is one transport, and the layout has its own option. */
  backends: z.array(z.string()).optional(),
  num_threads: z.number().int().optional(),
  enable_cross_layers_blocks: vllmFlag.optional(),
});

/** vLLM's spec_name for a store with tiers below memory. */
export const TIERING = 'TieringOffloadingSpec';

const oneFolder =
  'wanted at most one tier, of type fs: [{"type":"fs","root_dir":"DIR"}]. kvferry has no obj or p2p tier; for a Redis or Valkey server give --store-url';

/** A folder below memory (vllm/v1/kv_offload/tiering/fs), the same as --store-dir. */
export const folderTierSchema = z.strictObject({
  type: z.literal('fs'),
  root_dir: z.string({ error: 'wanted a folder' }).min(1, { error: 'wanted a folder' }),
  /** Accepted but ignored, like the rest. */
  n_read_threads: z.number().int().positive().optional(),
  n_write_threads: z.number().int().positive().optional(),
  enable_kv_events: vllmFlag.optional(),
  locality: z.string().nullish(),
});

export const offloadingExtraSchema = z
  .strictObject({
    spec_name: z.enum(['CPUOffloadingSpec', TIERING]).optional(),
    /** Total for the one store that all engines share; the same as --store. */
    cpu_bytes_to_use: z.number().int().positive().optional(),
    /** Tokens; a multiple of the engines' block size. */
    block_size: z.number().int().positive().optional(),
    blocks_per_chunk: z.number().int().positive().optional(),
    /** vLLM has lru and arc. */
    eviction_policy: z.enum(EVICTIONS).default('lru'),
    store_threshold: z.number().int().nonnegative().default(0),
    max_tracker_size: z.number().int().positive().default(64_000),
    offload_prompt_only: vllmFlag.default(true),
    secondary_tiers: z
      // The type first, for a message about it rather than about another type's fields.
      .array(z.looseObject({ type: z.literal('fs', { error: oneFolder }) }).pipe(folderTierSchema), {
        error: oneFolder,
      })
      .max(1, { error: oneFolder })
      .default([]),
    /** Accepted but ignored: it is about events for routers outside. */
    self_describing_kv_events: vllmFlag.optional(),
  })
  .refine((extra) => extra.block_size === undefined || extra.blocks_per_chunk === undefined, {
    error: 'block_size and blocks_per_chunk set the same thing: give one of them',
  })
  .refine(({ secondary_tiers, spec_name }) => secondary_tiers.length === 0 || spec_name === TIERING, {
    error: `secondary_tiers is given, and spec_name is not ${TIERING}: give it, since vLLM ignores the tiers otherwise`,
  })
  .refine(({ store_threshold, spec_name }) => store_threshold < 2 || spec_name !== TIERING, {
    error: `store_threshold is 2 or more, which vLLM refuses with ${TIERING}: leave it out`,
  });

/** AIBrix's and LMCache's connectors take their settings from the environment (store-environment.ts). */
export const aibrixExtraSchema = z.strictObject({});
/** All accepted but ignored. */
export const lmcacheExtraSchema = z.strictObject({
  discard_partial_chunks: vllmFlag.optional(),
  lmcache_rpc_port: z.union([z.string(), z.number()]).optional(),
  skip_last_n_tokens: vllmCount.optional(),
  use_native: vllmFlag.optional(),
});

/** How a MultiConnector's connectors share a load. first-hit is vLLM's. */
export const COMPOSITIONS = ['first-hit', 'max-hit', 'compose', 'cost-aware'] as const;
export type Composition = (typeof COMPOSITIONS)[number];

export type NixlExtra = z.infer<typeof nixlExtraSchema>;
export type OffloadingExtra = z.infer<typeof offloadingExtraSchema>;
