/** Settings of sweep and calibrate, and of the policy that decides whether P pulls. */
import { z } from 'zod';
import { oneOf, positive, text, wholeNumbers } from './fields.ts';

export const sweep = {
  context: wholeNumbers('whole numbers of tokens, 1 or more, separated by commas', { min: 1 })
    .nullable()
    .default(null)
    .meta({
      description:
        "Comma-separated: tokens whose KV D holds and P lacks. Default: 8, 16, ... 512, as far as the model's context allows.",
      value: 'TOKENS',
    }),
  localHit: wholeNumbers('whole numbers of tokens, 0 or more, separated by commas', { min: 0 })
    .default([0])
    .meta({
      description: 'Comma-separated: tokens before these that P has in its own cache; whole blocks.',
      value: 'TOKENS',
    }),
  newTokens: positive('tokens')
    .default(16)
    .meta({ description: 'New user tokens after these, whose KV no engine has.', value: 'TOKENS' }),
  csv: text('a file').nullable().default(null).meta({
    description: 'Write one CSV line per measured turn.',
    value: 'FILE',
  }),
};

export const calibration = {
  fromReport: text('a file').nullable().default(null).meta({
    description:
      'Measure nothing. Instead fit costs for kvferry simulate --costs to a report from kvferry bench or replay, of a server (--endpoint) or of local engines. --costs-out writes them.',
    value: 'FILE',
  }),
  costsOut: text('a file').nullable().default(null).meta({
    description:
      'Also measure steps, READs and how much engines slow each other down, and write the costs for kvferry simulate --costs.',
    value: 'FILE',
  }),
};

const wantedShare = "a share of turns from 0% to 100%, such as '5%'";

export const costs = {
  pullPolicy: oneOf(['threshold', 'cost-aware']).default('threshold').meta({
    description:
      "How P decides whether to pull: by vLLM's fixed --threshold, or by costs predicted from a profile and from recent turns.",
    value: 'threshold|cost-aware',
  }),
  costProfile: text('a file that kvferry calibrate wrote').nullable().default(null).meta({
    description:
      'The initial cost profile for cost-aware, from kvferry calibrate. Default: a quick calibration at the start.',
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
        'Serve this share of the turns that could pull a second time, the other way and from the same state, and report what the choice cost. Audited turns do not count in timings.',
      value: 'SHARE',
    }),
};
