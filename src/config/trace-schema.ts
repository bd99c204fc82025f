/** The settings of a trace: which one, how it is read, and how it is made smaller, slower or shorter. */

import { scaleDivisor } from './bench-schema.ts';
import { anyNumber, flag, oneOf, positive, text, time } from './fields.ts';
import { TRACE_FORMATS } from './trace-formats.ts';

const wantedScale = "1, or 1/N with a whole number N, such as '1/32'";

export const trace = {
  trace: text('a file').nullable().default(null).meta({
    description:
      "The trace: Mooncake's, Bailian's or LLMServingSim's JSONL, Azure's or BurstGPT's CSV, or conversations of ShareGPT or vLLM; in .gz too.",
    value: 'FILE',
  }),
  traceFormat: oneOf(TRACE_FORMATS)
    .nullable()
    .default(null)
    .meta({
      description: `One of ${TRACE_FORMATS.join(', ')}. Left out: found by how the file begins.`,
      value: 'NAME',
    }),
  traceBlockSize: positive('tokens').nullable().default(null).meta({
    description:
      'Tokens that a hash id of the trace stands for. Left out: 512 for mooncake, 16 for the others.',
    value: 'TOKENS',
  }),
  traceScale: text(wantedScale)
    .refine((value) => scaleDivisor(value) !== null, { error: wantedScale })
    .nullable()
    .default(null)
    .meta({ description: 'Divides every length of the trace by N.', value: '1/N' }),
  speedUp: anyNumber('a number above 0', { above: 0 }).default(1).meta({
    description:
      'Arrivals and think times are so many times as fast as in the trace; below 1 they are slower.',
    value: 'X',
  }),
  limit: positive('requests').nullable().default(null).meta({
    description: 'Only the first so many requests of the trace.',
    value: 'N',
  }),
  skipBad: flag().default(false).meta({
    description: 'Passes over lines that cannot be used; they are counted and named.',
    value: null,
  }),
  conversationRate: anyNumber('a number above 0', { above: 0 }).default(1).meta({
    description: 'Of a trace without times: conversations that begin in a second, with Poisson gaps.',
    value: 'R',
  }),
};

/** Of conversations that come by themselves. */
export const pacing = {
  thinkTime: time("a time, 0 or more, such as '500ms' or '2s'", { min: 0 }).default(0).meta({
    description:
      "From an answer's last token to the next turn: with --arrival-rate, and of a trace without times.",
    value: 'TIME',
  }),
};
