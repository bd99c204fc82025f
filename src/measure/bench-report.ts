/**
 * The report of a benchmark: what `kvferry bench --json` writes. Every field is described where it is defined; times are
 * milliseconds of a clock that ran. Does not make reports: bench-summary.ts and bench-comparison.ts do.
 */
import { z } from 'zod';
import { benchMovingSchema } from './bench-moving.ts';
import { benchLengthSchema, benchPathSchema, intervalSchema } from './bench-paths-schema.ts';
import { benchRoutingSchema } from './bench-routing.ts';
import { auditSchema, integritySchema } from './report.ts';
import { reportHead } from './report-head.ts';
import { benchWindowsSchema } from './windows-report.ts';

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

/** What modes are compared by. */
export const COMPARED_METRICS = ['ttft_ms', 'tpot_ms', 'latency_ms'] as const;
export type ComparedMetric = (typeof COMPARED_METRICS)[number];

export const COMPARED_STATISTICS = ['mean', 'p25', 'p50', 'p75', 'p90', 'p99'] as const;
export type ComparedStatistic = (typeof COMPARED_STATISTICS)[number];

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

export const ratioSchema = z.strictObject({
  reference: z.number(),
  candidate: z.number(),
  ratio: z.number().nullable().describe('reference / candidate: above 1 the candidate is faster.'),
  low: z.number().nullable().describe('Lower end of the 95% interval of the ratio.'),
  high: z.number().nullable(),
});

const statisticsOf = z.strictObject(
  Object.fromEntries(COMPARED_STATISTICS.map((name) => [name, ratioSchema])) as Record<
    ComparedStatistic,
    typeof ratioSchema
  >,
);

export const pairSchema = z.strictObject({
  reference: z.string(),
  candidate: z.string(),
  requests: count.describe('Requests that both answered in the same round.'),
  bootstrap: z.strictObject({
    method: z.literal('percentile, requests drawn with all their rounds'),
    resamples: count,
    confidence: z.number(),
    seed: z.number().int(),
  }),
  ...(Object.fromEntries(COMPARED_METRICS.map((name) => [name, statisticsOf])) as Record<
    ComparedMetric,
    typeof statisticsOf
  >),
  ttft_later_turns_ms: statisticsOf.nullable().describe('Turns from the second on alone; null without any.'),
  computed_tokens_saved: z.number().int().nullable(),
});

export const benchComparisonSchema = pairSchema.extend({
  tokens_identical: z.boolean().describe('Every mode and round gave the same tokens to every request.'),
  first_difference: z
    .strictObject({
      mode: z.string(),
      round: count,
      conversation_id: z.string(),
      turn: count,
      token_index: count,
    })
    .nullable(),
});

export const benchAuditSchema = z.strictObject({
  requests: count.describe('Served in rounds of their own, which are in no other figure of the report.'),
  failed_requests: count,
  turns: z
    .array(
      auditSchema.extend({
        round: z.number().int().positive(),
        conversation_id: z.string(),
        turn: z.number().int().positive(),
      }),
    )
    .describe('The sample that was served both ways.'),
  slower_choices: count,
  regret_ms: ms.describe('TTFT that the choices lost against the better ones, summed.'),
  better_ttft_ms: ms.describe('TTFT of the better choices, summed.'),
});

export const experimentSchema = z.strictObject({
  title: z.string(),
  prefix_caching: z.boolean().nullable().describe("P's; null for an endpoint."),
  p_blocks: count.nullable(),
  d_blocks: count.nullable(),
  rounds: count.describe('Rounds that are complete and counted.'),
  modes: z.record(z.string(), benchModeSchema),
  comparison: benchComparisonSchema
    .nullable()
    .describe('bidirectional against unidirectional; null unless two modes ran.'),
  comparisons: z.record(z.string(), pairSchema).describe('Each other mode against the reference.'),
  moving: benchMovingSchema
    .optional()
    .describe(
      'What moving a conversation cost: where policies are compared, and some moved what others did not.',
    ),
  link: z
    .string()
    .nullable()
    .optional()
    .describe('A modelled link, of an experiment that has its own; null: as fast as this machine copies.'),
  by_length: z
    .array(benchLengthSchema)
    .optional()
    .describe('Which way is quickest at which length of prompt: where ways of KV are compared.'),
  regret: z
    .record(z.string(), z.strictObject({ regret_ms: ms, share: z.number().nonnegative() }))
    .optional()
    .describe(
      'By way: TTFT a request beyond the best way at that request, in hindsight; and as a share of it.',
    ),
  audit: benchAuditSchema.optional().describe('--audit: what the policy lost by its choices.'),
  windows: benchWindowsSchema
    .optional()
    .describe('Of a model with sliding windows: what they save against keeping everything.'),
  published: z
    .strictObject({
      source: z.string(),
      ttft_ms: z.record(
        z.string(),
        z.strictObject({ reference: z.number(), candidate: z.number(), ratio: z.number() }),
      ),
    })
    .nullable()
    .describe("What the experiment reproduces, in its publisher's figures."),
});

export const benchReportSchema = z.strictObject({
  ...reportHead('bench'),
  complete: z.boolean().describe('false: interrupted, or fewer rounds than asked for.'),
  incomplete_reason: z.string().nullable(),
  target: z.strictObject({
    kind: z.enum(['cluster', 'endpoint']),
    url: z.string().nullable(),
    model: z.string(),
    block_bytes: count.nullable(),
    kv_bytes_per_token: count.nullable(),
    parameters: count.nullable(),
    link: z.string().nullable().describe('A modelled link; null: as fast as this machine copies.'),
  }),
  config: z.record(z.string(), z.unknown()).describe('Every setting, as a config file would have it.'),
  workload: z.strictObject({
    source: z.string().describe('A preset or a file.'),
    scale: z.string().describe("'1', or 1/N: every length was divided by N."),
    seed: z.number().int(),
    num_clients: count.describe('0: a trace, whose requests came when it says.'),
    max_active_conversations: count,
    conversations: count,
    requests: count.describe('In one round of one mode, at most.'),
    prompt_tokens: count.describe('Of all turns of all conversations, histories included.'),
    output_tokens: count,
    generation: z
      .record(z.string(), z.string())
      .describe("vLLM's generation parameters, as used; empty for a list."),
  }),
  plan: z.strictObject({
    budget_ms: ms.nullable(),
    spent_ms: ms.describe('Start-up, estimate and rounds.'),
    rounds: count,
    notes: z.array(z.string()).describe('What was cut or scaled, a sentence each.'),
  }),
  recorder_overhead_percent: z
    .number()
    .nullable()
    .describe('What recording spans costs of a run; null when not measured.'),
  experiments: z.record(z.string(), experimentSchema),
  modes: z
    .record(z.string(), benchModeSchema.omit({ samples: true }))
    .describe("The first experiment's modes."),
  comparison: benchComparisonSchema.nullable().describe("The first experiment's comparison."),
  integrity: integritySchema.nullable().describe('null for an endpoint.'),
});

export type Described = z.infer<typeof describedSchema>;
export type BenchSample = z.infer<typeof sampleSchema>;
export type BenchTable = z.infer<typeof tableSchema>;
export type BenchMode = z.infer<typeof benchModeSchema>;
export type Ratio = z.infer<typeof ratioSchema>;
export type BenchPair = z.infer<typeof pairSchema>;
export type BenchComparison = z.infer<typeof benchComparisonSchema>;
export type BenchAudit = z.infer<typeof benchAuditSchema>;
export type Experiment = z.infer<typeof experimentSchema>;
export type BenchReport = z.infer<typeof benchReportSchema>;
