/**
 * Cost profile: what pulling and prefilling cost on one machine, for one model over one link. `kvferry calibrate` writes
 * it and the cost-aware policy reads it. Times are milliseconds of the host's clock. A profile is valid only for the setup
 * on which it was measured.
 */
import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { parseJson } from './fields.ts';

const ms = z.number().nonnegative();

const filled = z
  .number()
  .positive()
  .max(1)
  .exactOptional()
  .describe('Share of a block that the layers of the group use; absent: all.');

const groupSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('full'), filled }),
  z.strictObject({ kind: z.literal('sliding'), window: z.number().int().positive(), filled }),
]);
type Group = Readonly<z.infer<typeof groupSchema>>;

const byBytes = z.strictObject({
  fixed_ms: ms,
  ms_per_byte: ms,
  samples: z.number().int().positive(),
});

export const costProfileSchema = z.strictObject({
  kvferry_cost_profile: z.literal(1).describe('Version of this format.'),
  kvferry: z.string().describe("The program's version."),
  date: z.string().describe('When it was measured, ISO 8601.'),
  model: z.string(),
  weight_dtype: z.enum(['f16', 'f32']),
  adapter: z.string(),
  link: z
    .strictObject({ name: z.string(), bytes_per_second: z.number().positive(), latency_ms: ms })
    .nullable()
    .describe('The modelled link; null when transfers ran as fast as the machine copies.'),
  handover: z.literal('streamed').optional().describe("kvferry's own handover; absent: vLLM's."),
  block_size: z.number().int().positive().describe('Tokens a block.'),
  block_bytes: z.number().int().positive().describe('Bytes per block, the same for every KV cache group.'),
  kv_cache_groups: z
    .array(groupSchema)
    .min(1)
    .default([{ kind: 'full' }])
    .describe('What each KV cache group keeps: a window of tokens, or all.'),
  layout: z.enum(['contiguous', 'layer-pieces']),
  pull: z
    .strictObject({
      overhead_ms: ms.describe('What a pull adds to TTFT in addition to the transfer itself.'),
      fixed_ms: ms.describe('Fixed cost of a transfer of any size.'),
      ms_per_byte: ms,
    })
    .describe('overhead_ms + fixed_ms + ms_per_byte * bytes.'),
  prefill: z
    .strictObject({
      fixed_ms: ms.describe(
        "Cost of a turn with no prompt tokens, including the handover to D and D's first step.",
      ),
      ms_per_token: ms,
      ms_per_token_context: ms.describe('Per computed token and per token before it.'),
    })
    .describe(
      'fixed_ms + ms_per_token * tokens + ms_per_token_context * (sum over computed tokens of position).',
    ),
  store: z
    .strictObject({
      load: byBytes.describe('From the store to an engine.'),
      save: byBytes.describe("From an engine's offer until the store has read it."),
      folder_read: byBytes.nullable().describe("From the store's folder to its memory; null: no folder."),
    })
    .optional()
    .describe('fixed_ms + ms_per_byte * bytes, by tier; absent: no store.'),
  fit: z.strictObject({
    samples: z.number().int().nonnegative(),
    rounds: z.number().int().positive(),
    least_tokens: z.number().int().nonnegative(),
    most_tokens: z
      .number()
      .int()
      .positive()
      .describe('Contexts were measured from least_tokens to most_tokens.'),
    ttft_r2: z.number().describe('Share of the variance of TTFT that the fit explains.'),
    ttft_median_error: z.number().nonnegative().describe('Median of |measured - fitted| / measured.'),
    transfer_r2: z.number(),
    transfer_median_error: z.number().nonnegative(),
  }),
  recommended_threshold: z
    .number()
    .int()
    .nonnegative()
    .nullable()
    .describe('The kv_recompute_threshold with the least regret; null: never pull.'),
});

export type CostProfile = Readonly<z.infer<typeof costProfileSchema>>;

/** The setup in which a profile is to be used. */
export interface CostSituation {
  model: string;
  weightDtype: string;
  adapter: string;
  link: { bytesPerSecond: number; latencyMs: number; name: string } | null;
  blockSize: number;
  blockBytes: number;
  groups: readonly Group[];
  layout: string;
}

const describeGroups = (groups: readonly Group[]): string =>
  groups.map((spec) => (spec.kind === 'full' ? 'full' : `window ${spec.window}`)).join(' + ');

/** `source` names where the text came from, for messages. Throws ConfigError. */
export function parseCostProfile(text: string, source: string): CostProfile {
  const again = 'create one with kvferry calibrate';
  const json = parseJson(text, source, again);
  const version = (json as { kvferry_cost_profile?: unknown } | null)?.kvferry_cost_profile;
  if (version === undefined) throw new ConfigError(`${source} is not a cost profile: ${again}`);
  if (version !== 1) {
    throw new ConfigError(
      `${source} is a cost profile of version ${String(version)}: wanted version 1; ${again}`,
    );
  }
  const result = costProfileSchema.safeParse(json);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  throw new ConfigError(`${source} cannot be used: ${path.join('.') || 'it'}: ${message}; ${again}`);
}

/** Throws ConfigError if a profile is given but would not be used. `label` gives a key as the user wrote it. */
export function refuseIdleProfile(
  { pullPolicy, costProfile }: { pullPolicy: 'threshold' | 'cost-aware'; costProfile: string | null },
  label: (key: string) => string,
): void {
  const policy = label('pullPolicy');
  if (pullPolicy === 'threshold' && costProfile !== null)
    throw new ConfigError(
      `${label('costProfile')} is given and ${policy} is threshold: give ${policy} cost-aware, or leave the profile out`,
    );
}

/** Throws ConfigError that names every difference. */
export function checkCostProfile(profile: CostProfile, here: CostSituation, source: string): void {
  const link = (l: { bytesPerSecond: number; latencyMs: number } | null) =>
    l ? `${l.bytesPerSecond} bytes/s with ${l.latencyMs} ms` : 'none';
  const there = profile.link && {
    bytesPerSecond: profile.link.bytes_per_second,
    latencyMs: profile.link.latency_ms,
  };
  const pairs: [string, unknown, unknown][] = [
    ['model', profile.model, here.model],
    ['weight dtype', profile.weight_dtype, here.weightDtype],
    ['adapter', profile.adapter, here.adapter],
    ['modelled link', link(there), link(here.link)],
    ['block size', profile.block_size, here.blockSize],
    ['bytes of a block', profile.block_bytes, here.blockBytes],
    ['KV cache groups', describeGroups(profile.kv_cache_groups), describeGroups(here.groups)],
    ['layout', profile.layout, here.layout],
  ];
  const differing = pairs.filter(([, a, b]) => a !== b);
  if (differing.length === 0) return;
  const facts = differing.map(([what, a, b]) => `${what} ${String(a)} instead of ${String(b)}`);
  throw new ConfigError(
    `${source} was measured with ${facts.join(', ')}: run kvferry calibrate with the settings of this run, or leave --cost-profile out`,
  );
}
