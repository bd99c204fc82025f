/** The report of a validation: what `kvferry simulate --validate --json` writes. */
import { z } from 'zod';
import { reportHead } from './report-head.ts';

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);

const figureSchema = z.strictObject({
  name: z.string(),
  unit: z.enum(['ms', '/s', '%', '']),
  real: z.number().describe('Mean over the real runs.'),
  spread: z
    .number()
    .nonnegative()
    .describe('Half the distance from the least to the most of the real runs, as a share of their mean.'),
  simulated: z.number(),
  error: z.number().describe('simulated / real - 1.'),
  met: z
    .boolean()
    .describe('Within 10%, or twice the spread where that is more; of what must be exact: the same.'),
  exact: z.boolean(),
});

const armSchema = z.strictObject({
  label: z.string(),
  runs: count.describe('Real ones that count.'),
  requests: count,
  failed: count,
  figures: z.array(figureSchema),
  per_request: z
    .strictObject({ mape: z.number(), r: z.number().nullable() })
    .describe("Of each request's TTFT, against its mean over the real runs."),
  decisions: z
    .strictObject({
      alike: share.describe('Turns that go to the same engines as in a real run, on average.'),
      among_real: share.nullable().describe('The same between two real runs; null: there was one.'),
      counted: count.describe(
        'Turns of all real runs that were served again when each was simulated once more by what was chosen there.',
      ),
      as_counted: count.describe('Those that then found, pulled and moved exactly as much.'),
      among_real_counted: share
        .nullable()
        .describe(
          'The same share between two real runs that went to the same engines throughout; null: no two did.',
        ),
    })
    .describe('Where routing hangs on times, counts hang on who was chosen.'),
});

export const validationReportSchema = z.strictObject({
  ...reportHead('validate'),
  load_average: z
    .strictObject({ begin: z.number(), end: z.number() })
    .describe('Of the last minute, before engines started and after the last real run.'),
  fleet: z.string(),
  model: z.string(),
  seed: z.number().int(),
  costs: z.record(z.string(), z.unknown()).describe('As measured, and as simulate --costs reads them.'),
  repeats: z
    .strictObject({ median: z.number(), worst: z.strictObject({ what: z.string(), spread: z.number() }) })
    .describe("The middle half of a measured point's repeats, as a share of their median."),
  fit_worst: z.strictObject({ what: z.string(), error: z.number() }),
  arms: z.array(armSchema),
  ranking: z
    .strictObject({ pairs: count, alike: count })
    .describe(
      'Pairs of arms whose TTFT differs by more than 20%, and those that the simulation orders alike.',
    ),
});

export type ValidationReport = z.infer<typeof validationReportSchema>;
