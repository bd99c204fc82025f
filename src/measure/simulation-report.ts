/**
 * The report of a simulation: what `kvferry simulate --json` writes. Nothing in it is of the machine that made it or of the
 * time when: the same settings and seed give the same bytes.
 */
import { z } from 'zod';
import { describedSchema } from './bench-report.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();
const share = z.number().min(0).max(1);

const VERDICTS = ['STABLE', 'BACKLOGGED', 'OVERLOADED'] as const;

const sliceSchema = z
  .strictObject({
    start_ms: ms,
    end_ms: ms,
    running: z.number(),
    waiting: z.number().describe('For a step, or for KV on its way.'),
    kv_used: share.describe('Of the pool.'),
    busy: share.describe('Of the time.'),
  })
  .describe('Averages over a stretch of time.');

const engineSchema = z.strictObject({
  engine_id: z.string(),
  role: z.enum(['prefill', 'decode']),
  combined: z.boolean(),
  steps: count,
  prefill_tokens: count,
  decode_rows: count.describe('Rows of one: generated tokens, and the last token of what was pulled whole.'),
  preemptions: count,
  busy: share,
  running: z.number(),
  waiting: z.number(),
  kv_used: share,
  load: z.array(sliceSchema),
});

export const simulatedArmSchema = z.strictObject({
  label: z.string(),
  mode: z.string(),
  routing: z.string(),
  threshold: count.describe("P's kv_recompute_threshold."),
  seeds: count,
  simulated_ms: ms.describe('First request to last token, summed over seeds.'),
  requests: count.describe('That ended well.'),
  failed_requests: count,
  errors: z.array(z.strictObject({ message: z.string(), count })),
  ttft_ms: describedSchema.nullable(),
  tpot_ms: describedSchema
    .nullable()
    .describe('(latency - TTFT) / (tokens - 1), over requests with two tokens or more.'),
  latency_ms: describedSchema.nullable(),
  mean_ttft_ms_by_seed: z.array(ms),
  requests_per_second: z.number(),
  output_tokens_per_second: z.number(),
  goodput: z
    .strictObject({
      slo_ttft_ms: z.number().nullable(),
      slo_tpot_ms: z.number().nullable(),
      share,
      requests_per_second: z.number(),
    })
    .nullable()
    .describe('Of requests that kept within both; null where no --slo-… was given.'),
  prompt_tokens: count,
  local_hit_tokens: count,
  pulled_tokens: count,
  computed_tokens: count,
  output_tokens: count,
  bytes_p_to_d: count,
  bytes_d_to_p: count,
  engine_hours: z.number().describe('Summed over engines and seeds.'),
  transfers: z.record(z.string(), count).describe('READs by how they ended.'),
  verdict: z.strictObject({
    word: z.enum(VERDICTS),
    score: share.describe('STABLE below 0.5, BACKLOGGED below 0.75, else OVERLOADED.'),
    growth: share.describe(
      'Of requests under way, from the middle third of the time in which conversations come to the last; 1: as without any end.',
    ),
    unfinished: share.describe('Of all conversations, under way when the last one came.'),
  }),
  engines: z.array(engineSchema).describe('Of the first seed.'),
  links: z
    .array(z.strictObject({ from: z.string(), to: z.string(), bytes: z.number(), busy_ms: ms }))
    .describe('Modelled ones that were used, of the first seed.'),
});

export const simulationReportSchema = z.strictObject({
  kvferry: z.string().describe("The program's version."),
  kind: z.literal('simulate'),
  schema_version: z.literal(1),
  simulated: z.literal(true).describe('No engine ran: times are a model.'),
  costs: z.strictObject({
    name: z.string(),
    source: z.enum(['measured', 'fitted', 'published', 'assumed']),
    about: z.string(),
  }),
  model: z.string(),
  fleet: z.string(),
  block_bytes: count,
  workload: z.strictObject({
    source: z.string(),
    scale: z.string(),
    conversations: count,
    turns: count,
    asked: z.string().describe('By whom, and when.'),
  }),
  seed: count,
  arms: z.array(simulatedArmSchema),
});

export type SimulationReport = z.infer<typeof simulationReportSchema>;
export type SimulatedArm = z.infer<typeof simulatedArmSchema>;
