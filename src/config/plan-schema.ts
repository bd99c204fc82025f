/** The settings of `kvferry plan`: what must be kept at what load, what is tried, and how long. */
import { shareOf } from './bench-schema.ts';
import { anyNumber, listOf, positive, text, wholeNumber } from './fields.ts';
import { PLACEMENTS } from './fleet-schema.ts';

const wantedAttainment = "a share of requests above 0% and up to 100%, such as '90%'";

/** One P and one D at least; 64 of each at most, as in a fleet. */
const engineBound = () => wholeNumber('a whole number of engines from 2 to 128', { min: 2, max: 128 });

export const planning = {
  rate: anyNumber('requests a second, above 0', { above: 0 }).nullable().default(null).meta({
    description:
      'Requests a second that the fleet must serve, on average: conversations come with exponential gaps, a trace is made faster or slower. Left out: as the trace says.',
    value: 'R',
  }),
  attainment: text(wantedAttainment)
    .refine((value) => /^\d+(\.\d+)?%$/.test(value) && shareOf(value) > 0 && shareOf(value) <= 1, {
      error: wantedAttainment,
    })
    .default('90%')
    .meta({ description: 'Share of requests that must keep --slo-ttft and --slo-tpot.', value: 'SHARE' }),
  engines: engineBound().nullable().default(null).meta({
    description:
      'Not the fewest engines for a rate, but the highest rate at which so many, P and D together, keep it.',
    value: 'N',
  }),
  maxEngines: engineBound().default(64).meta({
    description: 'Fleets of more engines are not tried.',
    value: 'N',
  }),
  placement: listOf(PLACEMENTS)
    .default([...PLACEMENTS])
    .meta({
      description:
        'Comma list of ways to place a turn that are tried. pooled: any P with any D. replica: rolesets as small as the numbers of P and D allow.',
      value: 'LIST',
    }),
  sample: positive('requests').nullable().default(null).meta({
    description:
      'Requests of the longest simulations; rounds with more candidates take an eighth, a quarter and half. Left out: 400 to 1600, fewer of long prompts; what comes in 20 times --slo-ttft at least.',
    value: 'N',
  }),
  fleetOut: text('a file').nullable().default(null).meta({
    description: 'Write the chosen fleet, as --fleet of simulate, bench, serve and export takes it.',
    value: 'FILE',
  }),
};
