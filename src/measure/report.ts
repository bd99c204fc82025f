/**
 * The report of a run: what `kvferry run --json` writes. Every field is described where it is defined. Times are
 * milliseconds of a clock that ran; bytes are counted where they are copied. Does not make reports: summary.ts and
 * comparison.ts do.
 */
import { z } from 'zod';
import { MODES } from '../config/modes.ts';
import { profileSchema } from './profile.ts';
import { reportHead } from './report-head.ts';
import { timelineSchema } from './turn-timeline.ts';
import { windowsSchema } from './windows-report.ts';

const count = z.number().int().nonnegative();
const ms = z.number().nonnegative();

const transferSchema = z
  .strictObject({
    bytes: count.describe('Bytes copied out of the shared slab.'),
    blocks: count.describe('KV blocks moved.'),
    ms: ms.describe(
      "From the READ's posting to the notification, milliseconds; of a streamed hand-over P's prefill lies within.",
    ),
    moving_ms: ms
      .optional()
      .describe('Of a streamed hand-over: the part of ms in which bytes of it were under way.'),
    gbps: z
      .number()
      .nonnegative()
      .nullable()
      .describe(
        'Gigabytes (10^9 bytes) a second, of moving_ms where there is one; null when nothing was moved.',
      ),
    descriptors: count.describe('Runs of neighbouring blocks that the holder copied as one.'),
    throttled: z
      .boolean()
      .describe('A modelled link slowed it down: its time and rate are not those of this machine.'),
  })
  .describe('What a turn moved in one direction; zeros when it moved nothing.');

export const auditSchema = z.strictObject({
  chose: z.enum(['pull', 'recompute']),
  chosen_ttft_ms: ms,
  other_ttft_ms: ms.describe('The same turn from the same state, the other way; its tokens are discarded.'),
  regret_ms: ms.describe('What the choice lost; 0 when it was the better one.'),
});

export const routingSchema = z.strictObject({
  policy: z.string().describe("The policy's name; of a mix, its policies with their weights."),
  way: z.enum(['alone', 'pull', 'streamed']).describe('One engine alone, or P and D.'),
  prefill: z.string().nullable().describe('Who prefilled; null: the decode engine did both.'),
  decode: z.string().describe('Who generated.'),
  load: z
    .string()
    .nullable()
    .describe("Who was offered to P as a holder of the last turn's KV; null: nobody."),
  why: z.string().describe("The policy's reason, for people."),
  predicted_ttft_ms: ms.nullable().describe('What the policy took the TTFT to be; null: it predicts none.'),
  decided_in_ms: ms.describe('How long the decision took.'),
  candidates: z.array(
    z.strictObject({
      engine_id: z.string(),
      side: z.enum(['prefill', 'decode']).describe('What it was a candidate for.'),
      in_flight: count.describe("The router's own requests there."),
      running: count.nullable().describe('As the engine had told; null: the policy does not look at loads.'),
      waiting: count.nullable().describe('The same.'),
      age_ms: ms.nullable().describe('How old that was.'),
      cached_tokens: count
        .nullable()
        .describe('Leading prompt tokens it was known to have; null: the policy does not look at caches.'),
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
  pulled_tokens: count.describe('Prompt tokens whose KV P pulled from D.'),
  computed_tokens: count.describe('Prompt rows that the prefilling engine dispatched.'),
  no_pull_reason: z
    .string()
    .nullable()
    .describe('Why nothing was pulled; null when something was, or nothing offered.'),
  output_tokens: count.describe('Tokens generated, an end token included.'),
  output_token_ids: z.array(count).describe('Their ids.'),
  logits_digests: z
    .array(z.string())
    .describe('A 64-bit digest of the logits behind each of them, as 16 hex digits.'),
  text: z.string().nullable().describe('The answer, where the conversation is text.'),
  finish_reason: z
    .enum(['stop', 'length', 'abort', 'error'])
    .describe('stop: an end token. length: the limit.'),
  ttft_ms: ms.describe(
    "From the router's acceptance to the first token of D (of the only engine when monolithic).",
  ),
  tpot_ms: ms.nullable().describe('Mean time between tokens after the first; null when there is only one.'),
  latency_ms: ms.describe("From the router's acceptance to the last token."),
  stages_ms: z
    .record(z.string(), z.number())
    .describe(
      'Where the time to the first token went: each moment is given to the stage that was waited for. They add up to ttft_ms; stages that took no time are left out, but for other. docs/stages.md lists them.',
    ),
  overlapped_ms: z
    .record(z.string(), z.number())
    .describe(
      'What stages did while another one was waited for; chunks that were under way together count each.',
    ),
  routing: routingSchema
    .optional()
    .describe('Who served the turn, of whom, and why; left out where nothing routed it.'),
  audit: auditSchema
    .optional()
    .describe('Of a turn that was served both ways: it is left out of the times of every mode.'),
  transfer: z.strictObject({
    p_to_d: transferSchema.describe("P's KV of the prompt, to D."),
    d_to_p: transferSchema.describe('KV that D holds of earlier turns, back to P.'),
    store_to_p: transferSchema
      .optional()
      .describe('KV that P loaded from the store; left out where nothing came.'),
    store_to_d: transferSchema
      .optional()
      .describe('KV that D loaded from the store; left out where nothing came.'),
  }),
});

const statisticsSchema = z
  .strictObject({ mean: z.number(), p50: z.number(), p90: z.number(), max: z.number() })
  .describe('Quantiles interpolate linearly.');

export const spanRecorderSchema = z
  .strictObject({
    spans: count.describe('Recorded while the mode ran.'),
    messages: count.describe('In which they crossed from the engines.'),
    ms: ms.describe('What that many cost: the same was timed in this process, after the run.'),
    share: z.number().nonnegative().describe('ms of wall_ms.'),
  })
  .describe('What recording the spans cost.');

export const runSchema = z.strictObject({
  mode: z.enum(MODES),
  turns: z.array(turnSchema).describe('In the order in which they ended.'),
  summary: z.strictObject({
    ttft_ms: statisticsSchema.nullable().describe('Over all turns.'),
    ttft_first_turn_ms: statisticsSchema.nullable().describe('Over first turns, which no mode can speed up.'),
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
    bytes_from_store: count
      .optional()
      .describe('Sum over turns, to P and to D; left out where there is no store.'),
    bytes_to_store: count.optional().describe('What the store read of the engines.'),
    two_hop_bytes: count
      .optional()
      .describe('Bytes that came to an engine by two hops in one turn, where one would have done.'),
    first_use_compilations: count.describe(
      'Pipelines compiled while the mode ran: 0, or its times include compiling.',
    ),
    preemptions: count.describe('Requests that lost their blocks and were computed again.'),
    wall_ms: ms.describe('From the first turn to the last, of this mode.'),
    peak_kv_bytes: z
      .strictObject({ prefill: count, decode: count })
      .optional()
      .describe('KV in use at once at most, what is held for readers included, over the engines of a role.'),
    span_recorder: spanRecorderSchema.optional(),
  }),
});

export const disagreementSchema = z.strictObject({
  mode: z.string().describe('The mode that differs.'),
  reference: z.string().describe('The mode that it was compared with.'),
  conversation_id: z.string(),
  turn: z.number().int().positive(),
  token_index: count.describe('Place in the output, from 0 on.'),
  what: z.enum(['token', 'logits', 'length']).describe('logits: the same token from logits of other bits.'),
});

const gainSchema = z.strictObject({
  reference: z.number(),
  candidate: z.number(),
  ratio: z.number().nullable().describe('reference / candidate: above 1 the candidate is faster.'),
});

const gainsSchema = z.strictObject({ mean: gainSchema, p50: gainSchema });

export const comparisonSchema = z.strictObject({
  tokens_identical: z.boolean().describe('Every mode gave the same token ids.'),
  logits_identical: z.boolean().describe('Every digest of logits is the same too.'),
  compared_tokens: count.describe('Output tokens of the first mode.'),
  max_logit_difference: z
    .number()
    .nonnegative()
    .nullable()
    .describe(
      '0 when all digests are equal; else from kept logits, up to the first token that differs; null when unknown.',
    ),
  first_disagreement: disagreementSchema.nullable(),
  ttft_speedup: z
    .strictObject({ mean: z.number(), p50: z.number() })
    .nullable()
    .describe(
      'unidirectional / bidirectional, TTFT of turns from the second on; null unless both ran and have such turns.',
    ),
  ttft_ms: gainsSchema
    .nullable()
    .describe(
      'bidirectional (candidate) against unidirectional (reference), all turns; null unless both ran.',
    ),
  ttft_later_turns_ms: gainsSchema
    .nullable()
    .describe('The same, turns from the second on; null unless both ran and have such turns.'),
  computed_tokens_saved: z
    .number()
    .int()
    .nullable()
    .describe('Prompt rows of unidirectional less those of bidirectional; null unless both ran.'),
});

export const integritySchema = z.strictObject({
  ok: z.boolean().describe('Every block was accounted for, on P and on D, and none was in use in the end.'),
  leftover_blocks: count.describe(
    'Blocks still in use once every conversation had ended and every hold was released.',
  ),
  problem: z.string().nullable().describe('What did not add up; null when all did.'),
});

export const reportSchema = z.strictObject({
  ...reportHead('run'),
  model: z.strictObject({
    name: z.string(),
    parameters: count,
    vocab_size: count,
    max_model_len: count.describe('Longest prompt and output together, tokens.'),
    kv_bytes_per_token: count,
    block_bytes: count.describe(
      'Bytes of a KV block: of all layers, or, where some have windows, of as many as share one.',
    ),
  }),
  config: z.record(z.string(), z.unknown()).describe('Every setting, as a config file would have it.'),
  link: z
    .strictObject({ name: z.string(), bytes_per_second: z.number(), latency_ms: z.number() })
    .nullable()
    .describe('The modelled link; null when transfers ran as fast as this machine copies.'),
  start_up: z
    .strictObject({
      total_ms: ms.describe('Until the engines took requests.'),
      engines: z.array(
        z.strictObject({
          engine_id: z.string(),
          role: z.enum(['prefill', 'decode']),
          num_blocks: count.describe('KV blocks in the pool, the null block included.'),
          load_ms: ms.describe('Weights made or read, and uploaded.'),
          compile_ms: ms.describe('Shaders compiled and warmed up.'),
          pipelines: count,
          driver_threads: z
            .boolean()
            .optional()
            .describe('false: its software driver computes without threads of its own, which suits decode.'),
        }),
      ),
    })
    .describe('Apart from all other times.'),
  profile: profileSchema.optional().describe('With --profile, where the adapter has timestamp-query.'),
  runs: z.array(runSchema).describe('One a mode, in the order in which they ran.'),
  windows: windowsSchema
    .optional()
    .describe('Of a model with sliding windows: what they save against keeping everything.'),
  comparison: comparisonSchema.nullable().describe('null when only one mode ran.'),
  timeline: timelineSchema
    .nullable()
    .describe(
      'Spans of the turn that pulled the most, of the last where none did; null when none were seen.',
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
