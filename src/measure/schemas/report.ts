/**
 * The report of a run, which `kvferry run --json` writes. Times are measured, in milliseconds; bytes are counted where they
 * are copied. summary.ts and comparison.ts build reports.
 */
import { z } from 'zod';
import { MODES } from '../../config/modes.ts';
import { profileSchema } from '../spans/profile.ts';
import { timelineSchema } from '../spans/turn-timeline.ts';
import { reportHead } from './report-head.ts';
import { windowsSchema } from './windows-report.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();

const transferSchema = z
  .strictObject({
    bytes: count.describe('Bytes copied out of the shared slab.'),
    blocks: count.describe('KV blocks moved.'),
    tokens: count.optional().describe('From a store only: tokens whose KV it was for.'),
    ms: ms.describe(
      "From posting the READ to the notification, milliseconds; for a streamed handover this includes P's prefill.",
    ),
    moving_ms: ms
      .optional()
      .describe('Streamed handover only: the part of ms in which bytes were in flight.'),
    gbps: z
      .number()
      .nonnegative()
      .nullable()
      .describe(
        'Gigabytes (10^9 bytes) per second, over moving_ms if present, else over ms; null if nothing was moved.',
      ),
    descriptors: count.describe('Runs of adjacent blocks that the holder copied at once.'),
    throttled: z
      .boolean()
      .describe(
        'Whether a modelled link slowed it down, so that time and rate are not those of this machine.',
      ),
  })
  .describe('What a turn moved in one direction; zeros if nothing.');

export const auditSchema = z.strictObject({
  chose: z.enum(['pull', 'recompute']),
  chosen_ttft_ms: ms,
  other_ttft_ms: ms.describe('The same turn from the same state, the other way; its tokens are discarded.'),
  regret_ms: ms.describe('What the choice lost; 0 if it was the better one.'),
});

export const routingSchema = z.strictObject({
  policy: z.string().describe("The policy's name; for a mix, its policies with their weights."),
  way: z.enum(['alone', 'pull', 'streamed']).describe('One engine alone, or P and D.'),
  prefill: z.string().nullable().describe('The engine that prefilled; null: the decode engine did both.'),
  decode: z.string().describe('The engine that generated.'),
  load: z
    .string()
    .nullable()
    .describe("The engine offered to P as holder of the last turn's KV; null: none."),
  why: z.string().describe("The policy's reason, as text."),
  predicted_ttft_ms: ms.nullable().describe("The policy's predicted TTFT; null: it does not predict."),
  decided_in_ms: ms.describe('How long the decision took.'),
  candidates: z.array(
    z.strictObject({
      engine_id: z.string(),
      side: z.enum(['prefill', 'decode']).describe('The role it was a candidate for.'),
      in_flight: count.describe("The router's own requests at that engine, and turns that will come there."),
      running: count
        .nullable()
        .describe('As last reported by the engine; null: the policy does not use load.'),
      waiting: count.nullable().describe('Like running.'),
      age_ms: ms.nullable().describe('Age of that report.'),
      cached_tokens: count
        .nullable()
        .describe(
          'Leading prompt tokens that it was known to have cached; null: the policy does not use caches.',
        ),
      score: z.number().nullable().describe('null: the policy did not score it.'),
      best: z.enum(['most', 'least']).nullable().describe('Whether a higher or a lower score is better.'),
    }),
  ),
});

export type RoutingReport = z.infer<typeof routingSchema>;

export const turnSchema = z.strictObject({
  conversation_id: z.string().describe('Turns with the same id are one conversation.'),
  turn: z.number().int().positive().describe('From 1 on.'),
  prompt_tokens: count.describe('local_hit_tokens + pulled_tokens + computed_tokens, always.'),
  local_hit_tokens: count.describe("Prompt tokens whose KV was in the prefilling engine's own prefix cache."),
  pulled_tokens: count.describe(
    'Prompt tokens whose KV P pulled from another engine or loaded from a store.',
  ),
  computed_tokens: count.describe('Prompt rows that the prefilling engine dispatched.'),
  no_pull_reason: z
    .string()
    .nullable()
    .describe('Why nothing was pulled; null if something was pulled or nothing was offered.'),
  output_tokens: count.describe('Tokens generated, an end token included.'),
  output_token_ids: z.array(count).describe('Their ids.'),
  logits_digests: z
    .array(z.string())
    .describe('A 64-bit digest of the logits behind each of them, as 16 hex digits.'),
  text: z.string().nullable().describe('The answer, if the conversation is text.'),
  finish_reason: z
    .enum(['stop', 'length', 'abort', 'error'])
    .describe('stop: an end token. length: the limit.'),
  ttft_ms: ms.describe(
    'From the router accepting the request to the first token of D (monolithic: of the only engine).',
  ),
  tpot_ms: ms.nullable().describe('Mean time between tokens after the first; null if there is only one.'),
  latency_ms: ms.describe('From the router accepting the request to the last token.'),
  stages_ms: z
    .record(z.string(), z.number())
    .describe(
      'Time to the first token by stage: each moment counts for the stage that was waited for. The stages add up to ttft_ms; stages without time are omitted, except other. Listed in docs/stages.md.',
    ),
  overlapped_ms: z
    .record(z.string(), z.number())
    .describe('Time of stages while another stage was waited for; concurrent chunks each count.'),
  routing: routingSchema.optional().describe('The routing decision; absent if the turn was not routed.'),
  audit: auditSchema
    .optional()
    .describe('Present if the turn was served both ways; it then does not count in the times of any mode.'),
  transfer: z.strictObject({
    p_to_d: transferSchema.describe('KV of the prompt, from P to D.'),
    d_to_p: transferSchema.describe('KV of earlier turns that D holds, back to P.'),
    store_to_p: transferSchema.optional().describe('KV that P loaded from the store; absent if none.'),
    store_to_d: transferSchema.optional().describe('KV that D loaded from the store; absent if none.'),
  }),
});

const statisticsSchema = z
  .strictObject({ mean: z.number(), p50: z.number(), p90: z.number(), max: z.number() })
  .describe('Quantiles interpolate linearly.');

export const spanRecorderSchema = z
  .strictObject({
    spans: count.describe('Spans recorded while the mode ran.'),
    messages: count.describe('Messages that carried the spans from the engines.'),
    ms: ms.describe('Cost of that many spans, timed in this process after the run.'),
    share: z.number().nonnegative().describe('ms as a share of wall_ms.'),
  })
  .describe('Cost of recording spans.');

export const runSchema = z.strictObject({
  mode: z.enum(MODES),
  turns: z.array(turnSchema).describe('Turns in the order in which they ended.'),
  summary: z.strictObject({
    ttft_ms: statisticsSchema.nullable().describe('Over all turns.'),
    ttft_first_turn_ms: statisticsSchema
      .nullable()
      .describe('Over first turns, which pulling cannot speed up.'),
    ttft_later_turns_ms: statisticsSchema
      .nullable()
      .describe('Over turns from the second on; null without any.'),
    tpot_ms: statisticsSchema.nullable().describe('Over turns with more than one output token.'),
    latency_ms: statisticsSchema.nullable().describe('Over all turns.'),
    prompt_tokens: count.describe('Sum over turns.'),
    local_hit_tokens: count.describe('Sum over turns.'),
    pulled_tokens: count.describe('Sum over turns.'),
    computed_tokens: count.describe('Sum over turns.'),
    output_tokens: count.describe('Sum over turns.'),
    bytes_p_to_d: count.describe('Sum over turns.'),
    bytes_d_to_p: count.describe('Sum over turns.'),
    bytes_from_store: count.optional().describe('Sum over turns, to P and to D; absent without a store.'),
    bytes_to_store: count.optional().describe('Bytes that the store read from engines.'),
    two_hop_bytes: count
      .optional()
      .describe('Bytes that reached an engine by two hops in one turn where one would have sufficed.'),
    first_use_compilations: count.describe(
      'Pipelines compiled while the mode ran; if not 0, times include compiling.',
    ),
    preemptions: count.describe('Requests that lost their blocks and were recomputed.'),
    wall_ms: ms.describe('From the first turn of this mode to the last.'),
    peak_kv_bytes: z
      .strictObject({ prefill: count, decode: count })
      .optional()
      .describe('Peak KV in use, including KV held for readers, over the engines of a role.'),
    span_recorder: spanRecorderSchema.optional(),
  }),
});

export const disagreementSchema = z.strictObject({
  mode: z.string().describe('The mode that differs.'),
  reference: z.string().describe('The mode that it was compared with.'),
  conversation_id: z.string(),
  turn: z.number().int().positive(),
  token_index: count.describe('Position in the output, from 0.'),
  what: z.enum(['token', 'logits', 'length']).describe('logits: the same token from different logits.'),
});

const gainSchema = z.strictObject({
  reference: z.number(),
  candidate: z.number(),
  ratio: z.number().nullable().describe('reference / candidate: above 1 the candidate is faster.'),
});

const gainsSchema = z.strictObject({ mean: gainSchema, p50: gainSchema });

const OR_KEPT = 'or if later modes loaded KV that a folder or server kept from earlier ones.';

export const comparisonSchema = z.strictObject({
  tokens_identical: z.boolean().describe('Every mode gave the same token ids.'),
  logits_identical: z.boolean().describe('Every digest of logits is also the same.'),
  compared_tokens: count.describe('Output tokens of the first mode.'),
  max_logit_difference: z
    .number()
    .nonnegative()
    .nullable()
    .describe(
      '0 if all digests are equal; else from kept logits, up to the first token that differs; null if unknown.',
    ),
  first_disagreement: disagreementSchema.nullable(),
  ttft_speedup: z
    .strictObject({ mean: z.number(), p50: z.number() })
    .nullable()
    .describe(
      `unidirectional / bidirectional, TTFT of turns from the second on; null unless both ran and have such turns, ${OR_KEPT}`,
    ),
  ttft_ms: gainsSchema
    .nullable()
    .describe(
      `bidirectional (candidate) against unidirectional (reference), all turns; null unless both ran, ${OR_KEPT}`,
    ),
  ttft_later_turns_ms: gainsSchema
    .nullable()
    .describe(`The same for turns from the second on; null unless both ran and have such turns, ${OR_KEPT}`),
  computed_tokens_saved: z
    .number()
    .int()
    .nullable()
    .describe(`Prompt rows of unidirectional minus those of bidirectional; null unless both ran, ${OR_KEPT}`),
});

export const integritySchema = z.strictObject({
  ok: z.boolean().describe('Every block was accounted for on P and D, and none was in use at the end.'),
  leftover_blocks: count.describe(
    'Blocks still in use after every conversation had ended and every hold was released.',
  ),
  problem: z.string().nullable().describe('What did not add up; null if everything did.'),
});

export const reportSchema = z.strictObject({
  ...reportHead('run'),
  model: z.strictObject({
    name: z.string(),
    parameters: count,
    vocab_size: count,
    max_model_len: count.describe('Longest prompt plus output, tokens.'),
    kv_bytes_per_token: count,
    block_bytes: count.describe(
      'Bytes per KV block: of all layers, or with sliding windows of as many layers as share a block.',
    ),
  }),
  config: z.record(z.string(), z.unknown()).describe('All settings, as in a config file.'),
  link: z
    .strictObject({ name: z.string(), bytes_per_second: z.number(), latency_ms: z.number() })
    .nullable()
    .describe(
      "The modelled link of --link; null if there was none. A fleet file's links are in config.fleet, and hold for their pairs.",
    ),
  start_up: z
    .strictObject({
      total_ms: ms.describe('Time until the engines accepted requests.'),
      engines: z.array(
        z.strictObject({
          engine_id: z.string(),
          role: z.enum(['prefill', 'decode']),
          num_blocks: count.describe('KV blocks in the pool, including the null block.'),
          load_ms: ms.describe('Time to generate or read weights, and upload them.'),
          compile_ms: ms.describe('Time to compile shaders and warm up.'),
          pipelines: count,
          driver_threads: z
            .boolean()
            .optional()
            .describe('false: its software driver runs without its own threads, which is faster for decode.'),
        }),
      ),
    })
    .describe('Start-up times, which do not count in other times.'),
  profile: profileSchema.optional().describe('With --profile, if the adapter supports timestamp-query.'),
  runs: z.array(runSchema).describe('One per mode, in the order in which they ran.'),
  windows: windowsSchema
    .optional()
    .describe('For a model with sliding windows: what they save compared with keeping everything.'),
  comparison: comparisonSchema.nullable().describe('null if only one mode ran.'),
  timeline: timelineSchema
    .nullable()
    .describe(
      'Spans of the turn that pulled the most, or of the last turn if none pulled; null if no spans were seen.',
    ),
  integrity: integritySchema,
});

export type Summary = z.infer<typeof statisticsSchema>;
export type TransferReport = z.infer<typeof transferSchema>;
export type SpanRecorderReport = z.infer<typeof spanRecorderSchema>;
export type TurnReport = z.infer<typeof turnSchema>;
export type TurnAudit = z.infer<typeof auditSchema>;
export type RunReport = z.infer<typeof runSchema>;
export type Disagreement = z.infer<typeof disagreementSchema>;
export type Comparison = z.infer<typeof comparisonSchema>;
export type Integrity = z.infer<typeof integritySchema>;
export type Report = z.infer<typeof reportSchema>;
