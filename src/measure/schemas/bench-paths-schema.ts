/** The parts of a benchmark's report about KV paths. Built by bench-paths.ts. */
import { z } from 'zod';

const count = z.number().int().nonnegative();
const bytes = count;

export const benchPathSchema = z.strictObject({
  name: z.string(),
  bytes: z
    .strictObject({
      p_to_d: bytes,
      d_to_p: bytes,
      store_to_p: bytes,
      store_to_d: bytes,
      p_to_store: bytes,
      d_to_store: bytes,
      two_hops: bytes.describe(
        'Bytes that reached an engine by two hops in one turn where one would have sufficed.',
      ),
    })
    .describe('KV moved per round, mean over rounds.'),
  memory: z
    .strictObject({
      p_pool_bytes: bytes.describe('Of all P. The same for every path; includes what is held for others.'),
      d_pool_bytes: bytes.describe('Of all D.'),
      store_bytes: bytes.describe('Blocks in the store at the end of a round, maximum over rounds.'),
      store_capacity_bytes: bytes,
    })
    .describe('Memory by tier.'),
  held_block_seconds: z
    .strictObject({
      on_d_for_p: z.number(),
      on_p_for_d: z.number(),
      saving: z.number().describe('Blocks of finished requests, until the store had read them.'),
    })
    .describe('Blocks of finished requests × seconds that they were kept for a reader, per round.'),
});
export type BenchPath = z.infer<typeof benchPathSchema>;

export const intervalSchema = z.strictObject({
  value: z.number(),
  low: z
    .number()
    .nullable()
    .describe(
      'Lower end of the 95% bootstrap interval over requests with all their rounds; null if too few.',
    ),
  high: z.number().nullable(),
});
export type Interval = z.infer<typeof intervalSchema>;

export const benchLengthSchema = z.strictObject({
  from_tokens: count.describe('Prompt length.'),
  to_tokens: count,
  requests: count.describe('Distinct requests, from the second turn of a conversation on.'),
  ways: z.record(
    z.string(),
    z.strictObject({
      ttft_ms: intervalSchema.describe('Median.'),
      times_faster: intervalSchema
        .nullable()
        .describe('Relative to the first path, ratio of medians; null for the first path.'),
    }),
  ),
  best: z.string().describe('The path with the lowest median TTFT.'),
  ahead_of: z
    .strictObject({ way: z.string(), times_faster: intervalSchema })
    .nullable()
    .describe('The next best path, and the lead over it; null if there is only one path.'),
  sure: z
    .boolean()
    .describe('Whether the interval separates the best from the next; false for very few requests.'),
});
export type BenchLength = z.infer<typeof benchLengthSchema>;
