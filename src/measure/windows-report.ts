/** What the windows of a model's layers save: a mode beside the same mode with every block of every layer kept. */
import { z } from 'zod';

const count = z.number().int().nonnegative();

const costsSchema = z.strictObject({
  peak_kv_bytes: z
    .strictObject({ prefill: count, decode: count })
    .describe('KV in use at once at most, over the engines of a role.'),
  bytes_p_to_d: count,
  bytes_d_to_p: count,
});

const bothWays = {
  mode: z.string().describe('The mode that ran both ways.'),
  windowed: costsSchema.describe('As it ran: of layers with a window what the window sees.'),
  all_full: costsSchema.describe('Every block of every layer kept and moved (--all-full-kv).'),
};

/** Of `run`: one way after the other. */
export const windowsSchema = z.strictObject({
  ...bothWays,
  logits_identical: z.boolean().describe('The same tokens from the same logits both ways.'),
});

/** Of `bench`: both ways in each round; the peaks are those of a round, the bytes are summed over rounds. */
export const benchWindowsSchema = z.strictObject({
  ...bothWays,
  tokens_identical: z.boolean().describe('The same tokens both ways, in every round.'),
});

export type WindowCosts = z.infer<typeof costsSchema>;
export type WindowsReport = z.infer<typeof windowsSchema>;
export type BenchWindows = z.infer<typeof benchWindowsSchema>;
