/** JSON of `kvferry verify`, and of `kvferry verify --faults`. */
import { z } from 'zod';

const count = z.number().int().nonnegative();
const turns = z.strictObject({
  right: count.describe('With the same tokens and logits as one engine alone.'),
  error: count.describe('Ended by an error.'),
  left: count.describe('Abandoned by their clients.'),
});

/** As in other reports, but with the name of the adapter only. */
const head = {
  kvferry: z.string().describe("The program's version."),
  schema_version: z.literal(1),
  adapter: z.string().describe("The adapter's name."),
};

export const verifyReportSchema = z.strictObject({
  ...head,
  kind: z.literal('verify'),
  model: z.string(),
  ok: z.boolean().describe('Whether no check failed.'),
  checks: z.array(
    z.strictObject({
      group: z.string().describe('The letter of its group.'),
      name: z.string(),
      status: z.enum(['passed', 'failed', 'skipped']),
      detail: z.string().describe('What was compared and found.'),
      ms: z.number(),
    }),
  ),
});

export const faultsReportSchema = z.strictObject({
  ...head,
  kind: z.literal('verify-faults'),
  seed: count,
  pairs: count.describe('The number of P and of D.'),
  faults: count.describe('Faults that happened.'),
  episodes: count,
  turns: turns.describe('All turns, including those during which no fault happened.'),
  errors: z.record(z.string(), count).describe('Errors that callers received, by code.'),
  engines_replaced: count,
  tallies: z.array(
    z.strictObject({
      kind: z.string().describe('The fault.'),
      times: count,
      turns: turns.describe('Turns in progress during these faults.'),
      violations: count.describe('In episodes with this fault.'),
    }),
  ),
  violations: z.array(
    z.strictObject({
      kind: z.string().describe('The rule that was broken.'),
      detail: z.string(),
      seed: count.describe('`--faults 1 --seed SEED` repeats the episode.'),
      picks: z.array(count).nullable().describe('The fewest faults of it that break the rule; null: all.'),
      faults: z.array(z.string()),
    }),
  ),
  ok: z.boolean().describe('Whether no rule was broken.'),
});

export type VerifyReport = z.infer<typeof verifyReportSchema>;
export type FaultsReport = z.infer<typeof faultsReportSchema>;
