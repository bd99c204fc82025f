/**
 * One mode in a benchmark's report: vLLM's table of its requests, their cost, and each request. Built by bench-summary.ts.
 */
import { z } from 'zod';
import { benchPathSchema, intervalSchema } from './bench-paths-schema.ts';
import { benchRoutingSchema } from './bench-routing-schema.ts';

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
  std: z.number().nullable().describe('Sample standard deviation (n - 1); null for a single sample.'),
  min: z.number(),
  p25: z.number(),
  p50: z.number(),
  p75: z.number(),
  p90: z.number(),
  p99: z.number().nullable().describe('null for fewer than 100 samples, as in vLLM.'),
  max: z.number(),
});

const cachedSchema = count
  .nullable()
  .optional()
  .describe(
    'Prompt tokens that a server reported as cached, pulled ones included; null if it did not. Absent for engines.',
  );

export const sampleSchema = z
  .strictObject({
    round: z.number().int().positive(),
    conversation_id: z.string(),
    turn: z.number().int().positive().describe('From 1 on.'),
    client: count,
    start_ms: ms.describe("Since the mode's first request of this round."),
    ttft_ms: ms,
    tpot_ms: ms.describe('0 if the answer arrived as one chunk, as in vLLM.'),
    latency_ms: ms,
    input_num_turns: count.describe('Messages sent: earlier questions and answers, and this question.'),
    input_num_tokens: count.describe('The whole prompt, history included.'),
    output_num_tokens: count,
    output_num_chunks: count.describe('Chunks after the first.'),
    cached_tokens: cachedSchema,
    local_hit_tokens: count
      .nullable()
      .describe('null for a server, whose cached_tokens include pulled ones.'),
    pulled_tokens: count.nullable().describe('null for a server.'),
    computed_tokens: count.nullable().describe('null if a server does not report cached_tokens.'),
    stages_ms: z.record(z.string(), z.number()).describe('Time to the first token by stage, milliseconds.'),
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
    mean_blocks: z.number().nonnegative().describe('Average over the time that the mode ran.'),
    peak_blocks: count,
    block_seconds: z.number().nonnegative(),
    byte_seconds: z.number().nonnegative(),
  })
  .describe('Blocks that an engine kept after their request had ended, integrated over time.');

export const benchModeSchema = z.strictObject({
  mode: z.string().describe('The mode of the cluster; server for an endpoint.'),
  label: z.string(),
  threshold: count.nullable().describe("P's kv_recompute_threshold; null for an endpoint."),
  table: tableSchema,
  warmup_tables: z
    .array(z.strictObject({ warmup_percent: z.number(), table: tableSchema }))
    .describe('The table without the first share of the samples (--warmup-percentages).'),
  itl_ms: itlSchema.nullable().describe('Time between tokens; null if every answer had one token.'),
  requests: count,
  failed_requests: count,
  errors: z.array(z.strictObject({ message: z.string(), count })),
  prompt_tokens: count.nullable().describe('Sum over requests; null if a server does not report it.'),
  cached_tokens: cachedSchema,
  local_hit_tokens: count.nullable(),
  pulled_tokens: count.nullable(),
  computed_tokens: count.nullable(),
  output_tokens: count,
  bytes_p_to_d: count.nullable(),
  bytes_d_to_p: count.nullable(),
  bytes_from_store: count
    .optional()
    .describe('To P and to D; absent without a store. Counted over the same rounds as runtime_ms.'),
  bytes_to_store: count.optional().describe('Bytes that the store read from engines.'),
  two_hop_bytes: count
    .optional()
    .describe('Bytes that reached an engine by two hops in one turn where one would have sufficed.'),
  stages_ms: z.record(z.string(), z.number()).describe('Mean over requests by stage, milliseconds.'),
  runtime_ms: ms.describe(
    'First request to last token, summed over rounds. Excludes rounds before conversations were omitted.',
  ),
  requests_per_second: z.number(),
  output_tokens_per_second: z.number().describe('D’s total rate over all requests.'),
  held_for_p: heldSchema.nullable().describe('Blocks held on D for the next turn: the memory cost of reuse.'),
  held_for_d: heldSchema.nullable().describe('On P, until D has read.'),
  peak_kv_bytes: z
    .strictObject({ prefill: count, decode: count })
    .optional()
    .describe('Peak KV in use, including KV held for readers, over the engines of a role.'),
  preemptions: count.nullable(),
  holds_dropped: z
    .strictObject({ for_p: count, for_d: count })
    .optional()
    .describe('Holds dropped unread to make room for waiting requests.'),
  not_pulled: z
    .record(z.string(), count)
    .optional()
    .describe('Prompts that pulled nothing although KV was offered, by reason.'),
  first_use_compilations: count.nullable().describe('Must be 0 for the times to be valid.'),
  routing: benchRoutingSchema
    .optional()
    .describe('How the policy distributed the work; only if policies are compared.'),
  path: benchPathSchema.optional().describe('What the path moved and held; only if KV paths are compared.'),
  ttft_median_ms: intervalSchema
    .optional()
    .describe('Median TTFT from the second turn on, with its 95% interval; only if KV paths are compared.'),
  samples: z.array(sampleSchema).describe('Requests in the order in which they began.'),
});

export type Described = z.infer<typeof describedSchema>;
export type BenchSample = z.infer<typeof sampleSchema>;
export type BenchTable = z.infer<typeof tableSchema>;
export type BenchMode = z.infer<typeof benchModeSchema>;
