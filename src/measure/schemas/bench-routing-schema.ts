/** How a routing policy distributed the work: load by engine, bytes by edge, moved conversations, goodput. */
import { z } from 'zod';

const count = z.number().int().nonnegative();

const balanceSchema = z.strictObject({
  tokens: z.record(z.string(), count).describe('Tokens by engine: computed (P) or generated (D).'),
  max_over_mean: z.number().nullable().describe('1: balanced; null without any tokens.'),
  jain: z
    .number()
    .nullable()
    .describe("Jain's index: 1 balanced, 1/n all on one engine; null without any tokens."),
});

export const benchRoutingSchema = z.strictObject({
  policy: z.string(),
  prefill: balanceSchema,
  decode: balanceSchema,
  edges: z
    .array(z.strictObject({ from: z.string(), to: z.string(), bytes: count }))
    .describe('KV moved, by source and destination.'),
  moved_turns: count.describe('Turns whose conversation was decoded on another engine in the previous turn.'),
  alone_turns: count.describe('Turns that one engine served alone.'),
  goodput: z
    .strictObject({
      slo_ttft_ms: z.number().nullable(),
      slo_tpot_ms: z.number().nullable(),
      share: z.number().describe('Share of requests, failed ones included, that met both limits.'),
      requests_per_second: z.number(),
    })
    .nullable()
    .describe('null if no --slo-… was given.'),
});

export type BenchRouting = z.infer<typeof benchRoutingSchema>;
export type Balance = z.infer<typeof balanceSchema>;
