/**
 * One mode of a benchmark in its report: vLLM's table of its requests, what they took, and each of them. bench-summary.ts makes
 * it.
 */
import { z } from 'zod';
import { benchPathSchema, intervalSchema } from './bench-paths-schema.ts';
import { benchRoutingSchema } from './bench-routing.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();

/** The rows of vLLM's multi-turn benchmark, in its order. */
export const BENCH_METRICS = [
  'ttft_ms',
  'tpot_ms',
  'latency_ms',
  'input_num_turns',
  'input_num_tokens',
  'output_num_tokens',
  'output_num_chunks',
] as const;
export type BenchMetric = (typeof BENCH_METRICS)[number];

/** pandas' describe(): sample standard deviation, quantiles by linear interpolation. */
export const describedSchema = z.strictObject({
  count,
  mean: z.number(),
  std: z.number().nullable().describe('Of the sample (n - 1); null for a single one.'),
  min: z.number(),
  p25: z.number(),
  p50: z.number(),
  p75: z.number(),
  p90: z.number(),
  p99: z.number().nullable().describe('null for fewer than 100 samples, as in vLLM.'),
  max: z.number(),
});

export const sampleSchema = z
  .strictObject({
    round: z.number().int().positive(),
    conversation_id: z.string(),
    turn: z.number().int().positive().describe('From 1 on.'),
    client: count,
    start_ms: ms.describe("Since the mode's first request of this round."),
    ttft_ms: ms,
    tpot_ms: ms.describe('0 when the answer came as one chunk, as in vLLM.'),
    latency_ms: ms,
    input_num_turns: count.describe(
      'Messages sent: the questions and answers before this one, and this one.',
    ),
    input_num_tokens: count.describe('The whole prompt, history included.'),
    output_num_tokens: count,
    output_num_chunks: count.describe('After the first one.'),
    local_hit_tokens: count.nullable().describe('null where a server does not say.'),
    pulled_tokens: count.nullable(),
    computed_tokens: count.nullable(),
    stages_ms: z.record(z.string(), z.number()).describe('Where the time to the first token went.'),
  })
  .describe('One request.');

const metricsShape = Object.fromEntries(BENCH_METRICS.map((name) => [name, describedSchema])) as Record<
  BenchMetric,
  typeof describedSchema
>;

/** vLLM's table: describe() of each row. */
export const tableSchema = z.strictObject(metricsShape);

const itlSchema = z.strictObject({
  count: count.describe('Steps between two tokens of one answer, over all requests.'),
  mean: z.number(),
  p50: z.number(),
  p90: z.number(),
  p99: z.number(),
  max: z.number(),
});

const heldSchema = z
  .strictObject({
    mean_blocks: z.number().nonnegative().describe('Over the time that the mode ran.'),
    peak_blocks: count,
    block_seconds: z.number().nonnegative(),
    byte_seconds: z.number().nonnegative(),
  })
  .describe('Blocks that an engine kept after their request ended, integrated where holds begin and end.');

export const benchModeSchema = z.strictObject({
  mode: z.string().describe('The mode of the cluster; server for an endpoint.'),
  label: z.string(),
  threshold: count.nullable().describe("P's kv_recompute_threshold; null for an endpoint."),
  table: tableSchema,
  warmup_tables: z
    .array(z.strictObject({ warmup_percent: z.number(), table: tableSchema }))
    .describe('The same without the first share of the samples: --warmup-percentages.'),
  itl_ms: itlSchema.nullable().describe('Time between tokens; null when every answer had one token.'),
  requests: count,
  failed_requests: count,
  errors: z.array(z.strictObject({ message: z.string(), count })),
  prompt_tokens: count.nullable().describe('Sum over requests; null where a server does not say.'),
  local_hit_tokens: count.nullable(),
  pulled_tokens: count.nullable(),
  computed_tokens: count.nullable(),
  output_tokens: count,
  bytes_p_to_d: count.nullable(),
  bytes_d_to_p: count.nullable(),
  stages_ms: z.record(z.string(), z.number()).describe('Mean by stage, over requests.'),
  runtime_ms: ms.describe(
    'First request to last token, summed over rounds; not those before conversations were left out.',
  ),
  requests_per_second: z.number(),
  output_tokens_per_second: z.number().describe("D's, all requests together."),
  held_for_p: heldSchema.nullable().describe('On D, for the next turn: what reuse costs in memory.'),
  held_for_d: heldSchema.nullable().describe('On P, until D has read.'),
  peak_kv_bytes: z
    .strictObject({ prefill: count, decode: count })
    .optional()
    .describe('KV in use at once at most, what is held for readers included, over the engines of a role.'),
  preemptions: count.nullable(),
  holds_dropped: z
    .strictObject({ for_p: count, for_d: count })
    .optional()
    .describe('Unread blocks of ended requests that gave way to requests that waited for room.'),
  not_pulled: z
    .record(z.string(), count)
    .optional()
    .describe('Prompts that nothing was pulled for although something was offered, by why.'),
  first_use_compilations: count.nullable().describe('Must be 0 for the times to count.'),
  routing: benchRoutingSchema
    .optional()
    .describe('How the policy shared the work out: where policies are compared.'),
  path: benchPathSchema.optional().describe('What the way moved and held: where ways of KV are compared.'),
  ttft_median_ms: intervalSchema
    .optional()
    .describe('Median TTFT from the second turn on, with its 95% interval: where ways of KV are compared.'),
  samples: z.array(sampleSchema).describe('In the order in which they began.'),
});

export type Described = z.infer<typeof describedSchema>;
export type BenchSample = z.infer<typeof sampleSchema>;
export type BenchTable = z.infer<typeof tableSchema>;
export type BenchMode = z.infer<typeof benchModeSchema>;
