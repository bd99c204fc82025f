/**
 * The report of a simulation, which `kvferry simulate --json` writes. It does not depend on machine or time: the same
 * settings and seed give the same bytes.
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
    waiting: z.number().describe('Requests waiting for a step or for KV in transfer.'),
    kv_used: share.describe('Share of the pool.'),
    busy: share.describe('Share of the time.'),
  })
  .describe('Averages over a time slice.');

const engineSchema = z.strictObject({
  engine_id: z.string(),
  role: z.enum(['prefill', 'decode']),
  combined: z.boolean(),
  serves_ms: ms.describe('Time from which it serves; if after 0, it joined or replaced an engine that died.'),
  ended_ms: ms.nullable().describe('When it left or died; null: it served to the end.'),
  steps: count,
  prefill_tokens: count,
  decode_rows: count.describe(
    'Single rows: generated tokens, and the last token of prompts that were pulled completely.',
  ),
  preemptions: count,
  busy: share,
  running: z.number(),
  waiting: z.number(),
  kv_used: share,
  load: z.array(sliceSchema),
});

const scalingSchema = z
  .strictObject({
    decisions: count.describe('Decisions of the autoscaler, including those that changed nothing.'),
    stayed: z
      .string()
      .nullable()
      .describe(
        'Why the autoscaler changed nothing in its last such decision, first seed; null: no autoscaler, or it always changed something.',
      ),
    joined: count,
    left: count,
    died: count,
    replaced: count.describe('Dead engines that were replaced by one that served in the same place.'),
    mean_engines: z
      .strictObject({
        prefill: z.number(),
        decode: z.number(),
        both: z.number().describe('Engines that do both; they are in neither of the others.'),
      })
      .describe('Mean number of serving engines.'),
    migrated_tokens: count.describe('KV held for next turns that was taken over from leaving engines.'),
    lost_tokens: count.describe('KV held for next turns that was lost with engines that left or died.'),
    recomputed_tokens: count.describe('Lost tokens that next turns recomputed.'),
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
      .describe('Events, first seed.'),
  })
  .nullable()
  .describe(
    'Scaling of the fleet, over all seeds; null: no engine joined or left, and there was no autoscaler.',
  );

const tierTimeSchema = z.strictObject({
  fixed_ms: ms,
  ms_per_byte: z.number().nonnegative(),
  source: z.enum(['measured', 'fitted', 'published', 'assumed']),
});

const storeSchema = z
  .strictObject({
    slots: count.describe('Capacity in blocks.'),
    blocks: count.describe('Blocks at the end, first seed.'),
    block_bytes: count.describe('Bytes per block, all KV cache groups.'),
    lookups: count.describe('Blocks looked up.'),
    hits: count.describe('Looked-up blocks that were found.'),
    stored: count,
    evicted: count,
    refused: count.describe('Blocks refused because all slots were in use.'),
    loads: count,
    failed_loads: count.describe('Failed loads, whose tokens were computed.'),
    loaded_tokens: count,
    load_ms: ms.describe('Total of all loads; concurrent ones each count.'),
    save_ms: ms.describe('Total of all saves, from their offers on.'),
    bytes_to_p: count,
    bytes_to_d: count,
    bytes_saved: count,
    two_hop_bytes: count.describe(
      'Bytes that reached an engine by two hops in a turn where one would have sufficed.',
    ),
    unanswered: count.describe('Lookups not answered in time.'),
    tiers: z
      .array(
        z.strictObject({
          tier: z.enum(['memory', 'folder', 'server']),
          blocks: count.describe('Blocks at the end, first seed.'),
          hits: count.describe(
            'Looked-up blocks found in this tier; blocks brought up count for the lower tier.',
          ),
          written: count,
          left_out: count.describe('Blocks not written because the tier did not keep up.'),
          expired: count.nullable().describe('null: not counted.'),
          read_ms: ms.describe('Total of all reads; concurrent ones each count.'),
          write_ms: ms.describe('Total of all writes; concurrent ones each count.'),
        }),
      )
      .describe('Tiers, nearest first.'),
  })
  .nullable()
  .describe('The KV store, over all seeds; null: no store.');

export const simulatedArmSchema = z.strictObject({
  label: z.string(),
  mode: z.string(),
  routing: z.string(),
  threshold: count.describe("P's kv_recompute_threshold."),
  seeds: count,
  simulated_ms: ms.describe(
    'From the beginning, or the end of --warmup-step, to the last answer; summed over seeds.',
  ),
  requests: count.describe('Requests that succeeded.'),
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
            'Share of requests that met the SLO, including those open at a stop; null if no --slo-… was given.',
          ),
        verdict: z.enum(VERDICTS),
      }),
    )
    .describe('Per seed, in order; the first is `seed`.'),
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
      'Share of all requests that met both limits, including those open at a stop; null if no --slo-… was given.',
    ),
  prompt_tokens: count,
  local_hit_tokens: count,
  pulled_tokens: count,
  computed_tokens: count,
  output_tokens: count,
  bytes_p_to_d: count,
  bytes_d_to_p: count,
  engine_hours: z.number().describe('Summed over engines and seeds, start-up included.'),
  transfers: z.record(z.string(), count).describe('READs by outcome.'),
  preemptions: count.describe('Over all engines and seeds.'),
  verdict: z.strictObject({
    word: z.enum(VERDICTS),
    score: share.describe('STABLE below 0.5, BACKLOGGED below 0.75, else OVERLOADED.'),
    growth: share.describe(
      'Growth of requests in flight from the middle third of the arrival time to the last third, if first turns also take longer. 0: none; 1: as in a backlog that grows evenly.',
    ),
    unfinished: share.describe(
      'Share of all conversations (trace: requests) in flight when the last one arrived.',
    ),
  }),
  stopped: z
    .strictObject({ at_ms: ms, open: count })
    .nullable()
    .describe(
      'When the simulation was stopped because the load is unstable, and the requests in flight; null: it finished.',
    ),
  scaling: scalingSchema,
  faults: z.record(z.string(), count).nullable().describe('Faults by kind; null: none planned.'),
  store: storeSchema,
  engines: z
    .array(engineSchema)
    .describe('Engines, first seed. Only `load` includes the warm-up of --warmup-step.'),
  links: z
    .array(z.strictObject({ from: z.string(), to: z.string(), bytes: z.number(), busy_ms: ms }))
    .describe('Modelled links that were used, first seed.'),
});

const poolSchema = z.strictObject({
  real: count.nullable().describe('null: not reported.'),
  simulated: count,
});

const againstSchema = z.strictObject({
  source: z.string().describe('The report of --against.'),
  clients: z
    .strictObject({ real: count, simulated: count })
    .describe('Clients that waited for each answer; 0: open-loop arrivals.'),
  arms: z.array(
    z.strictObject({
      label: z.string(),
      real: z.string().describe("The report's mode."),
      requests: z
        .strictObject({ real: count, simulated: count })
        .describe('Mean over its rounds, and over seeds; this applies to all counts here.'),
      prompt_tokens: z
        .strictObject({ real: count.nullable(), simulated: count })
        .describe('Prompt tokens of these requests; null if a server does not report it.'),
      pools: z
        .strictObject({ p_blocks: poolSchema, d_blocks: poolSchema })
        .optional()
        .describe('KV blocks of each P and D.'),
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

/** What else than the cost model decides when KV arrives. */
export const movingSchema = z.strictObject({
  links: z
    .string()
    .optional()
    .describe('Modelled links (--link, or of the fleet file) by name and place; absent: none.'),
  handover: z.literal('streamed').optional().describe("kvferry's own handover; absent: vLLM's."),
});

export const simulationReportSchema = z.strictObject({
  kvferry: z.string().describe("The program's version."),
  kind: z.literal('simulate'),
  schema_version: z.literal(1),
  simulated: z.literal(true).describe('No engine ran: times come from a model.'),
  costs: z.strictObject({
    name: z.string(),
    source: z.enum(['measured', 'fitted', 'published', 'assumed']),
    about: z.string(),
  }),
  starts: z
    .strictObject({
      ms,
      assumed: z.boolean().describe("Whether this is BLIS's default, because the costs have no value."),
    })
    .describe('Start-up time of an engine that joins.'),
  store_times: z
    .strictObject({
      assumed: z.boolean().describe('Whether READ times are used, because the costs have no store times.'),
      tiers: z
        .array(
          z.strictObject({
            tier: z.enum(['folder', 'server']),
            read: tierTimeSchema,
            write: tierTimeSchema,
          }),
        )
        .describe('Tiers below store memory, nearest first.'),
    })
    .nullable()
    .describe('Times of the store; null: no store.'),
  ...movingSchema.shape,
  model: z.string(),
  fleet: z.string(),
  block_bytes: count,
  workload: z.strictObject({
    source: z.string(),
    scale: z.string(),
    conversations: count,
    turns: count.describe('Most turns in the load.'),
    asked: z.string().describe('Description of arrivals or clients.'),
    closed_loop: z.boolean().describe('Clients wait for each answer, so no backlog can build up.'),
    faults: count.nullable().describe('Faults planned per seed (--faults); null: none.'),
  }),
  seed: count,
  arms: z.array(simulatedArmSchema),
  against: againstSchema.optional().describe('Comparison with a measured report (--against).'),
});

export type AgainstReport = z.infer<typeof againstSchema>;

export type SimulationReport = z.infer<typeof simulationReportSchema>;
export type SimulatedArm = z.infer<typeof simulatedArmSchema>;
