/** The parts of a benchmark's report that are about ways of KV; bench-paths.ts makes them. */
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
      two_hops: bytes.describe('Came to an engine by two hops in one turn where one would have done.'),
    })
    .describe('KV moved in a round, mean over rounds.'),
  memory: z
    .strictObject({
      p_pool_bytes: bytes.describe('The same for every way: what is held for others is in it.'),
      d_pool_bytes: bytes,
      store_bytes: bytes.describe('Of blocks in the store at the end of a round, the most of any round.'),
      store_capacity_bytes: bytes,
    })
    .describe('By tier.'),
  held_block_seconds: z
    .strictObject({
      on_d_for_p: z.number(),
      on_p_for_d: z.number(),
      saving: z.number().describe('Of ended requests, until the store had read them.'),
    })
    .describe('Blocks of ended requests × seconds that they stayed for a reader, in a round.'),
});
export type BenchPath = z.infer<typeof benchPathSchema>;

export const intervalSchema = z.strictObject({
  value: z.number(),
  low: z
    .number()
    .nullable()
    .describe('Lower end of the 95% interval, requests drawn with all their rounds; null of too few.'),
  high: z.number().nullable(),
});
export type Interval = z.infer<typeof intervalSchema>;

export const benchLengthSchema = z.strictObject({
  from_tokens: count.describe('Of the prompt.'),
  to_tokens: count,
  requests: count.describe('Different ones, from the second turn of a conversation on.'),
  ways: z.record(
    z.string(),
    z.strictObject({
      ttft_ms: intervalSchema.describe('Median.'),
      times_faster: intervalSchema
        .nullable()
        .describe('Than the first way, ratio of medians; null for that one itself.'),
    }),
  ),
  best: z.string().describe('The way with the least median TTFT.'),
  ahead_of: z
    .strictObject({ way: z.string(), times_faster: intervalSchema })
    .nullable()
    .describe('The next best, and by how much; null where there is one way only.'),
  sure: z
    .boolean()
    .describe('Whether the interval tells the best from the next; false of very few requests.'),
});
export type BenchLength = z.infer<typeof benchLengthSchema>;
