/** What it costs to decode a conversation's next turn on another engine. */
import { z } from 'zod';

const turnsSchema = z.strictObject({
  turns: z.number().int().nonnegative(),
  ttft_ms: z.number().describe('Mean over requests, like all fields here.'),
  bytes_p_to_d: z.number(),
  bytes_d_to_p: z.number(),
  computed_tokens: z.number(),
});

export const benchMovingSchema = z.strictObject({
  requests: z
    .number()
    .int()
    .positive()
    .describe('Later turns that moved under one policy or round and stayed under another.'),
  stayed: turnsSchema,
  moved: turnsSchema,
  ttft_ratio: z
    .strictObject({ ratio: z.number(), low: z.number(), high: z.number() })
    .nullable()
    .describe('moved / stayed: above 1 moving is slower; 95% bootstrap interval over requests.'),
});
export type BenchMoving = z.infer<typeof benchMovingSchema>;
export type MovingTurns = z.infer<typeof turnsSchema>;
