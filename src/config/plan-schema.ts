/** Settings of `kvferry plan`: load and SLO target, search space, simulation length. */
import { shareOf } from './bench-schema.ts';
import { anyNumber, listOf, positive, text, wholeNumber } from './fields.ts';
import { PLACEMENTS } from './fleet-schema.ts';

const wantedAttainment = "a share of requests above 0% and up to 100%, such as '90%'";

/** At least one P and one D. With more, the search takes too long. */
const engineBound = () => wholeNumber('a whole number of engines from 2 to 128', { min: 2, max: 128 });

export const planning = {
  rate: anyNumber('requests per second, above 0', { above: 0 }).nullable().default(null).meta({
    description:
      "Average requests per second that the fleet must serve. Conversations arrive with exponential gaps; a trace is sped up or slowed down. Default: the trace's own rate.",
    value: 'R',
  }),
  attainment: text(wantedAttainment)
    .refine((value) => /^\d+(\.\d+)?%$/.test(value) && shareOf(value) > 0 && shareOf(value) <= 1, {
      error: wantedAttainment,
    })
    .default('90%')
    .meta({ description: 'Share of requests that must meet --slo-ttft and --slo-tpot.', value: 'SHARE' }),
  engines: engineBound().nullable().default(null).meta({
    description:
      'Find the highest rate that this many engines (P plus D) sustain, instead of the fewest engines for a rate.',
    value: 'N',
  }),
  maxEngines: engineBound().default(64).meta({
    description: 'Largest fleet to try, in engines.',
    value: 'N',
  }),
  placement: listOf(PLACEMENTS)
    .default([...PLACEMENTS])
    .meta({
      description:
        'Comma-separated: placements to try. pooled: any P with any D. replica: rolesets as small as the numbers of P and D allow.',
      value: 'LIST',
    }),
  sample: positive('requests').nullable().default(null).meta({
    description:
      'Requests by which the last candidates are compared; rounds with more candidates use an eighth, a quarter and half of it. The answer is checked with eight times as many. Default: 400 to 1600, fewer for long prompts, but without --engines at least what arrives in 20 times --slo-ttft.',
    value: 'N',
  }),
  fleetOut: text('a file').nullable().default(null).meta({
    description: 'Write the chosen fleet as a file for --fleet of simulate, bench, serve and export.',
    value: 'FILE',
  }),
};
