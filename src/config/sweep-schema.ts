/** The settings of sweep and calibrate, and of the policy that decides pulls: what pulling and recomputing cost. */
import { z } from 'zod';
import { oneOf, positive, text, wholeNumbers } from './fields.ts';

export const sweep = {
  context: wholeNumbers('whole numbers of tokens, 1 or more, with commas between', { min: 1 })
    .nullable()
    .default(null)
    .meta({
      description:
        "Comma list: tokens whose KV D holds and P has not. Left out: 8, 16, ... 512, as far as the model's context reaches.",
      value: 'TOKENS',
    }),
  localHit: wholeNumbers('whole numbers of tokens, 0 or more, with commas between', { min: 0 })
    .default([0])
    .meta({
      description: 'Comma list: tokens before these that P has in its own cache; whole blocks.',
      value: 'TOKENS',
    }),
  newTokens: positive('tokens')
    .default(16)
    .meta({ description: "Tokens after them that nobody has: the user's.", value: 'TOKENS' }),
  csv: text('a file').nullable().default(null).meta({
    description: 'Write every turn measured as a line of CSV.',
    value: 'FILE',
  }),
};

export const calibration = {
  fromReport: text('a file').nullable().default(null).meta({
    description:
      'Measure nothing: fit what kvferry simulate --costs reads to a report that kvferry bench or replay wrote, of a server (--endpoint) or of engines here; --costs-out writes it.',
    value: 'FILE',
  }),
  costsOut: text('a file').nullable().default(null).meta({
    description:
      'Measure steps, READs and how engines slow each other down too, and write them for kvferry simulate --costs.',
    value: 'FILE',
  }),
};

const wantedShare = "a share of turns from 0% to 100%, such as '5%'";

export const costs = {
  pullPolicy: oneOf(['threshold', 'cost-aware']).default('threshold').meta({
    description:
      "What decides whether P pulls: vLLM's fixed --threshold, or costs predicted from a profile and from what is seen.",
    value: 'threshold|cost-aware',
  }),
  costProfile: text('a file that kvferry calibrate wrote').nullable().default(null).meta({
    description:
      'The profile that cost-aware begins with, from kvferry calibrate. Left out: a quick calibration at the start.',
    value: 'FILE',
  }),
};

export const audit = {
  audit: z
    .preprocess(
      (value) => (typeof value === 'number' ? `${100 * value}%` : value),
      z
        .string({ error: wantedShare })
        .regex(/^\d+(\.\d+)?%$/, { error: wantedShare })
        .refine((share) => Number.parseFloat(share) <= 100, { error: wantedShare }),
    )
    .default('0%')
    .meta({
      description:
        'Serve so many of the turns with something to pull a second time the other way, from the same state, and report what the choice lost. Audited turns are left out of times.',
      value: 'SHARE',
    }),
};
