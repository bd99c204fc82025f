/**
 * The report of a simulation: what `kvferry simulate --json` writes. Nothing in it is of the machine that made it or of the
 * time when: the same settings and seed give the same bytes.
 */
import { z } from 'zod';
import { describedSchema } from './bench-mode-schema.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();
const share = z.number().min(0).max(1);

export const VERDICTS = ['STABLE', 'BACKLOGGED', 'OVERLOADED'] as const;

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
  serves_ms: ms.describe('From when on; after 0, it joined or took the place of one that died.'),
  ended_ms: ms.nullable().describe('It left or died; null: it served to the end.'),
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

const scalingSchema = z
  .strictObject({
    decisions: count.describe('Of the autoscaler, those that changed nothing included.'),
    stayed: z
      .string()
      .nullable()
      .describe(
        'Why the autoscaler changed nothing when it last looked, of the first seed; null: there is none, or it always did.',
      ),
    joined: count,
    left: count,
    died: count,
    replaced: count.describe('Of those that died, by another in the same place that served.'),
    mean_engines: z.strictObject({ prefill: z.number(), decode: z.number() }).describe('That served.'),
    migrated_tokens: count.describe('Of KV held for next turns, taken over from engines that left.'),
    lost_tokens: count.describe('Of KV held for next turns, gone with engines that left or died.'),
    recomputed_tokens: count.describe('Of those, computed again by next turns.'),
    events: z
      .array(
        z.strictObject({
          at_ms: ms,
          event: z.enum(['decided', 'joined', 'leaving', 'left', 'died', 'failed']),
          engine_id: z.string().nullable(),
          role: z.enum(['prefill', 'decode']).nullable(),
          detail: z.string(),
        }),
      )
      .describe('Of the first seed.'),
  })
  .nullable()
  .describe('Engines that came and went, over all seeds; null: none did, and nobody decided.');

const tierTimeSchema = z.strictObject({
  fixed_ms: ms,
  ms_per_byte: z.number().nonnegative(),
  source: z.enum(['measured', 'fitted', 'published', 'assumed']),
});

const storeSchema = z
  .strictObject({
    slots: count.describe('Blocks that there is room for.'),
    blocks: count.describe('That are there in the end, of the first seed.'),
    block_bytes: count.describe('Of all KV cache groups.'),
    lookups: count.describe('Blocks that it was asked for.'),
    hits: count.describe('Those of them that were there.'),
    stored: count,
    evicted: count,
    refused: count.describe('Blocks for which there was no room, all being in use.'),
    loads: count,
    failed_loads: count.describe('Their tokens were computed.'),
    loaded_tokens: count,
    load_ms: ms.describe('Of all loads; those under way at once count each.'),
    save_ms: ms.describe('Of all saves, from their offers on.'),
    bytes_to_p: count,
    bytes_to_d: count,
    bytes_saved: count,
    two_hop_bytes: count.describe('That came to an engine by two hops in a turn where one would have done.'),
    unanswered: count.describe('Lookups that were not answered in time.'),
    tiers: z
      .array(
        z.strictObject({
          tier: z.enum(['memory', 'folder', 'server']),
          blocks: count.describe('That are there in the end, of the first seed.'),
          hits: count.describe('Blocks asked for that were there: what was brought up counts below.'),
          written: count,
          left_out: count.describe('Blocks that were not written: it did not keep up.'),
          expired: count.nullable().describe('null: where nobody counts them.'),
          read_ms: ms.describe('Of all reads; those under way at once count each.'),
          write_ms: ms.describe('Of all writes, the same.'),
        }),
      )
      .describe('Nearest first.'),
  })
  .nullable()
  .describe('Of the store beside the engines, over all seeds; null: there is none.');

export const simulatedArmSchema = z.strictObject({
  label: z.string(),
  mode: z.string(),
  routing: z.string(),
  threshold: count.describe("P's kv_recompute_threshold."),
  seeds: count,
  simulated_ms: ms.describe(
    'From its begin, or from the end of --warmup-step, to the last answer; summed over seeds.',
  ),
  requests: count.describe('That ended well.'),
  failed_requests: count,
  errors: z.array(z.strictObject({ message: z.string(), count })),
  ttft_ms: describedSchema.nullable(),
  tpot_ms: describedSchema
    .nullable()
    .describe('(latency - TTFT) / (tokens - 1), over requests with two tokens or more.'),
  latency_ms: describedSchema.nullable(),
  by_seed: z
    .array(
      z.strictObject({
        requests: count,
        failed_requests: count,
        ttft_ms: describedSchema.nullable(),
        tpot_ms: describedSchema.nullable(),
        requests_per_second: z.number(),
        good_share: share
          .nullable()
          .describe(
            'Of requests, those at a stop included, within the SLO; null where no --slo-… was given.',
          ),
        verdict: z.enum(VERDICTS),
      }),
    )
    .describe('In the order of seeds, the first of which is `seed`.'),
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
    .describe(
      'Of all requests, those at a stop included, that kept within both; null where no --slo-… was given.',
    ),
  prompt_tokens: count,
  local_hit_tokens: count,
  pulled_tokens: count,
  computed_tokens: count,
  output_tokens: count,
  bytes_p_to_d: count,
  bytes_d_to_p: count,
  engine_hours: z.number().describe('Summed over engines and seeds; starts count.'),
  transfers: z.record(z.string(), count).describe('READs by how they ended.'),
  preemptions: count.describe('Over all engines and seeds.'),
  verdict: z.strictObject({
    word: z.enum(VERDICTS),
    score: share.describe('STABLE below 0.5, BACKLOGGED below 0.75, else OVERLOADED.'),
    growth: share.describe(
      'Of requests under way, from the middle third of the time in which conversations come to the last, where first turns also take longer; 1: as without any end.',
    ),
    unfinished: share.describe(
      'Of all conversations (of a trace: requests), under way when the last one came.',
    ),
  }),
  stopped: z
    .strictObject({ at_ms: ms, open: count })
    .nullable()
    .describe(
      'Given up then, with so many requests under way: the load is unstable. null: it came to its end.',
    ),
  scaling: scalingSchema,
  faults: z
    .record(z.string(), count)
    .nullable()
    .describe('How often which fault happened; null: none was to.'),
  store: storeSchema,
  engines: z.array(engineSchema).describe('Of the first seed.'),
  links: z
    .array(z.strictObject({ from: z.string(), to: z.string(), bytes: z.number(), busy_ms: ms }))
    .describe('Modelled ones that were used, of the first seed.'),
});

const againstSchema = z.strictObject({
  source: z.string().describe('The report of --against.'),
  clients: z
    .strictObject({ real: count, simulated: count })
    .describe('Who waited for each answer; 0: requests came by themselves.'),
  arms: z.array(
    z.strictObject({
      label: z.string(),
      real: z.string().describe("The report's mode."),
      requests: z
        .strictObject({ real: count, simulated: count })
        .describe('Of one of its rounds, and of one seed, on average; so are all counts here.'),
      prompt_tokens: z
        .strictObject({ real: count.nullable(), simulated: count })
        .describe('Of these requests; null where a server does not say.'),
      figures: z.array(
        z.strictObject({
          name: z.string(),
          unit: z.enum(['ms', '/s', 'share', 'tokens']),
          real: z.number().nullable(),
          simulated: z.number().nullable(),
          error: z.number().nullable().describe('simulated / real - 1.'),
        }),
      ),
    }),
  ),
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
  starts: z
    .strictObject({
      ms,
      assumed: z.boolean().describe("The costs say nothing of it: BLIS's default."),
    })
    .describe('How long an engine takes to start that joins.'),
  store_times: z
    .strictObject({
      assumed: z.boolean().describe('The costs say nothing of a store: as a READ between engines.'),
      tiers: z
        .array(
          z.strictObject({
            tier: z.enum(['folder', 'server']),
            read: tierTimeSchema,
            write: tierTimeSchema,
          }),
        )
        .describe('Below its memory, nearest first.'),
    })
    .nullable()
    .describe('Whose loads and saves take how long; null: there is no store.'),
  model: z.string(),
  fleet: z.string(),
  block_bytes: count,
  workload: z.strictObject({
    source: z.string(),
    scale: z.string(),
    conversations: count,
    turns: count.describe('Asked for, at most.'),
    asked: z.string().describe('By whom, and when.'),
    closed_loop: z
      .boolean()
      .describe('By clients who wait for each answer: nothing piles up, whatever is asked.'),
    faults: count.nullable().describe('Planned for each seed: --faults; null: nothing is to go wrong.'),
  }),
  seed: count,
  arms: z.array(simulatedArmSchema),
  against: againstSchema.optional().describe('Beside what was measured: --against.'),
});

export type AgainstReport = z.infer<typeof againstSchema>;

export type SimulationReport = z.infer<typeof simulationReportSchema>;
export type SimulatedArm = z.infer<typeof simulatedArmSchema>;
