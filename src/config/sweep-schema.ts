/** The settings of a sweep: what is pulled and recomputed at each of its points. */
import { text, wholeNumber, wholeNumbers } from './fields.ts';

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
      description:
        'Comma list: tokens before these that P has in its own cache; whole blocks. Left out: none.',
      value: 'TOKENS',
    }),
  newTokens: wholeNumber('a whole number of tokens, 1 or more', { min: 1 })
    .default(16)
    .meta({ description: "Tokens after them that nobody has: the user's.", value: 'TOKENS' }),
  csv: text('a file').nullable().default(null).meta({
    description: 'Write every turn measured as a line of CSV.',
    value: 'FILE',
  }),
};
