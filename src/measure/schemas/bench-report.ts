/**
 * The report of a benchmark, which `kvferry bench --json` writes. Times are measured, in milliseconds. bench-summary.ts and
 * bench-comparison.ts build reports.
 */
import { z } from 'zod';
import { benchModeSchema } from './bench-mode-schema.ts';
import { benchMovingSchema } from './bench-moving-schema.ts';
import { benchLengthSchema } from './bench-paths-schema.ts';
import { auditSchema, integritySchema } from './report.ts';
import { reportHead } from './report-head.ts';
import { benchWindowsSchema } from './windows-report.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();

/** The statistics by which modes are compared. */
export const COMPARED_METRICS = ['ttft_ms', 'tpot_ms', 'latency_ms'] as const;
export type ComparedMetric = (typeof COMPARED_METRICS)[number];

export const COMPARED_STATISTICS = ['mean', 'p25', 'p50', 'p75', 'p90', 'p99'] as const;
export type ComparedStatistic = (typeof COMPARED_STATISTICS)[number];

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
  requests: count.describe('Requests that both modes answered in the same round.'),
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
  ttft_later_turns_ms: statisticsOf.nullable().describe('Only turns from the second on; null without any.'),
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
  requests: count.describe('Served in separate rounds, which do not count in other figures of the report.'),
  failed_requests: count,
  turns: z
    .array(
      auditSchema.extend({
        round: z.number().int().positive(),
        conversation_id: z.string(),
        turn: z.number().int().positive(),
      }),
    )
    .describe('The sample of turns that was served both ways.'),
  slower_choices: count,
  regret_ms: ms.describe('Sum of the TTFT that the choices lost against the better ones.'),
  better_ttft_ms: ms.describe('Sum of the TTFT of the better choices.'),
});

export const experimentSchema = z.strictObject({
  title: z.string(),
  prefix_caching: z.boolean().nullable().describe("P's; null for an endpoint."),
  p_blocks: count.nullable(),
  d_blocks: count.nullable(),
  rounds: count.describe('Complete rounds, which count.'),
  modes: z.record(z.string(), benchModeSchema),
  comparison: benchComparisonSchema
    .nullable()
    .describe('bidirectional against unidirectional; null unless two modes ran.'),
  comparisons: z.record(z.string(), pairSchema).describe('Each other mode against the reference.'),
  moving: benchMovingSchema
    .optional()
    .describe(
      'What moving a conversation cost; only if policies are compared and some moved conversations that others did not.',
    ),
  link: z
    .string()
    .nullable()
    .optional()
    .describe('The modelled link, if the experiment has its own; null: as fast as this machine copies.'),
  by_length: z
    .array(benchLengthSchema)
    .optional()
    .describe('The fastest path by prompt length; only if KV paths are compared.'),
  regret: z
    .record(z.string(), z.strictObject({ regret_ms: ms, share: z.number().nonnegative() }))
    .optional()
    .describe(
      'By path: TTFT per request beyond that of the best path for that request, in hindsight; also as a share.',
    ),
  audit: benchAuditSchema.optional().describe('With --audit: what the policy lost by its choices.'),
  windows: benchWindowsSchema
    .optional()
    .describe('For a model with sliding windows: what they save compared with keeping everything.'),
  published: z
    .strictObject({
      source: z.string(),
      ttft_ms: z.record(
        z.string(),
        z.strictObject({ reference: z.number(), candidate: z.number(), ratio: z.number() }),
      ),
    })
    .nullable()
    .describe('The published figures that the experiment reproduces.'),
});

export const benchReportSchema = z.strictObject({
  ...reportHead('bench'),
  complete: z.boolean().describe('false: interrupted, or fewer rounds than requested.'),
  incomplete_reason: z.string().nullable(),
  target: z.strictObject({
    kind: z.enum(['cluster', 'endpoint']),
    url: z.string().nullable(),
    model: z.string(),
    block_bytes: count.nullable(),
    kv_bytes_per_token: count.nullable(),
    parameters: count.nullable(),
    link: z
      .string()
      .nullable()
      .describe("The modelled link of --link; null: none. A fleet file's links are in config.fleet."),
  }),
  config: z.record(z.string(), z.unknown()).describe('All settings, as in a config file.'),
  workload: z.strictObject({
    source: z.string().describe('A preset or a file.'),
    scale: z.string().describe("'1', or 1/N: every length was divided by N."),
    seed: z.number().int(),
    num_clients: count.describe('0: a trace, replayed with its arrival times.'),
    max_active_conversations: count,
    conversations: count,
    requests: count.describe('At most, in one round of one mode.'),
    prompt_tokens: count.describe('All turns of all conversations, histories included.'),
    output_tokens: count,
    generation: z
      .record(z.string(), z.string())
      .describe("vLLM's generation parameters, as used; empty for a list."),
  }),
  plan: z.strictObject({
    budget_ms: ms.nullable(),
    spent_ms: ms.describe('Time for start-up, estimate and rounds.'),
    rounds: count,
    notes: z.array(z.string()).describe('What was cut or scaled, one sentence each.'),
  }),
  recorder_overhead_percent: z
    .number()
    .nullable()
    .describe('Cost of recording spans, in percent of the run; null if not measured.'),
  experiments: z.record(z.string(), experimentSchema),
  modes: z
    .record(z.string(), benchModeSchema.omit({ samples: true }))
    .describe("The first experiment's modes."),
  comparison: benchComparisonSchema.nullable().describe("The first experiment's comparison."),
  integrity: integritySchema.nullable().describe('null for an endpoint.'),
});

export type Ratio = z.infer<typeof ratioSchema>;
export type BenchPair = z.infer<typeof pairSchema>;
export type BenchComparison = z.infer<typeof benchComparisonSchema>;
export type BenchAudit = z.infer<typeof benchAuditSchema>;
export type Experiment = z.infer<typeof experimentSchema>;
export type BenchReport = z.infer<typeof benchReportSchema>;

/** The label of the mode under a key. */
export const labelIn = (modes: Readonly<Record<string, { label: string }>>, key: string): string =>
  modes[key]?.label ?? key;
