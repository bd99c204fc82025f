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

export const offloadingExtraSchema = z
  .strictObject({
    spec_name: z.enum(['CPUOffloadingSpec', 'TieringOffloadingSpec']).optional(),
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
  })
  .refine((extra) => extra.block_size === undefined || extra.blocks_per_chunk === undefined, {
    error: 'block_size and blocks_per_chunk set the same thing: give one of them',
  });

/** AIBrix's and LMCache's connectors take their settings from the environment (store-environment.ts). */
export const fromEnvironmentSchema = z.strictObject({});

/** How a MultiConnector's connectors share a load. first-hit is vLLM's. */
export const COMPOSITIONS = ['first-hit', 'max-hit', 'compose', 'cost-aware'] as const;
export type Composition = (typeof COMPOSITIONS)[number];

export type NixlExtra = z.infer<typeof nixlExtraSchema>;
export type OffloadingExtra = z.infer<typeof offloadingExtraSchema>;
