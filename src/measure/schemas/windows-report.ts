/** What sliding windows save: a mode compared with the same mode when all blocks of all layers are kept. */
import { z } from 'zod';

const count = z.number().int().nonnegative();

const costsSchema = z.strictObject({
  peak_kv_bytes: z
    .strictObject({ prefill: count, decode: count })
    .describe('Peak KV in use, over the engines of a role.'),
  bytes_p_to_d: count,
  bytes_d_to_p: count,
  bytes_from_store: count.optional().describe('To P and to D; absent without a store.'),
  bytes_to_store: count.optional().describe('Bytes that the store read from engines.'),
});

const bothWays = {
  mode: z.string().describe('The mode that ran both ways.'),
  windowed: costsSchema.describe('The normal run: sliding-window layers keep only what the window sees.'),
  all_full: costsSchema.describe('Every block of every layer kept and moved (--all-full-kv).'),
};

/** For `run`: one after the other. */
export const windowsSchema = z.strictObject({
  ...bothWays,
  logits_identical: z.boolean().describe('The same tokens from the same logits both ways.'),
});

/** For `bench`: both in each round. Peaks are per round; bytes are summed over rounds. */
export const benchWindowsSchema = z.strictObject({
  ...bothWays,
  tokens_identical: z.boolean().describe('The same tokens both ways, in every round.'),
});

export type WindowCosts = z.infer<typeof costsSchema>;
export type WindowsReport = z.infer<typeof windowsSchema>;
export type BenchWindows = z.infer<typeof benchWindowsSchema>;
