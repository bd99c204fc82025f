/** The report of a validation, which `kvferry simulate --validate --json` writes. */
import { z } from 'zod';
import { reportHead } from './report-head.ts';

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);

const figureSchema = z.strictObject({
  name: z.string(),
  unit: z.enum(['ms', '/s', '%', '']),
  real: z.number().describe('Mean over the real runs.'),
  spread: z.number().nonnegative().describe('Half the range of the real runs, as a share of their mean.'),
  simulated: z.number(),
  error: z.number().describe('simulated / real - 1.'),
  met: z
    .boolean()
    .describe('Within 10%, or twice the spread if that is more; values that must be exact: equal.'),
  exact: z.boolean(),
});

const armSchema = z.strictObject({
  label: z.string(),
  runs: count.describe('Real runs that count.'),
  requests: count,
  failed: count,
  figures: z.array(figureSchema),
  per_request: z
    .strictObject({ mape: z.number(), r: z.number().nullable() })
    .describe("Error of each request's TTFT against its mean over the real runs."),
  decisions: z
    .strictObject({
      alike: share.describe('Mean share of turns that go to the same engines as in a real run.'),
      among_real: share.nullable().describe('The same between two real runs; null: only one run.'),
      counted: count.describe(
        'Turns of all real runs when each is simulated again with the choices made there.',
      ),
      as_counted: count.describe('Turns that then have exactly the same hits, pulls and transfers.'),
      among_real_counted: share
        .nullable()
        .describe(
          'The same share between two real runs with the same choices throughout; null: no such runs.',
        ),
    })
    .describe('If routing depends on timing, counts depend on the engines chosen.'),
});

export const validationReportSchema = z.strictObject({
  ...reportHead('validate'),
  load_average: z
    .strictObject({ begin: z.number(), end: z.number() })
    .describe('Load average of the last minute, before engines started and after the last real run.'),
  fleet: z.string(),
  model: z.string(),
  seed: z.number().int(),
  costs: z.record(z.string(), z.unknown()).describe('Measured costs, in the format of simulate --costs.'),
  repeats: z
    .strictObject({ median: z.number(), worst: z.strictObject({ what: z.string(), spread: z.number() }) })
    .describe("Interquartile range of a measured point's repeats, as a share of their median."),
  fit_worst: z.strictObject({ what: z.string(), error: z.number() }),
  arms: z.array(armSchema),
  ranking: z
    .strictObject({ pairs: count, alike: count })
    .describe(
      'Pairs of arms whose TTFT differs by more than 20%, and how many the simulation orders the same way.',
    ),
});

export type ValidationReport = z.infer<typeof validationReportSchema>;
