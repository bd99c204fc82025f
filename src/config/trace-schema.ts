/** Settings of a trace: the file, its format, and how to scale, slow down or cut it. */

import { scaleDivisor } from './bench-schema.ts';
import { anyNumber, flag, oneOf, positive, text, time } from './fields.ts';
import { TRACE_FORMATS } from './trace-formats.ts';

const wantedScale = "1, or 1/N with a whole number N, such as '1/32'";

export const trace = {
  trace: text('a file').nullable().default(null).meta({
    description:
      'A trace: JSONL from Mooncake, Bailian or LLMServingSim, CSV from Azure or BurstGPT, or ShareGPT or vLLM conversations. May be gzipped (.gz).',
    value: 'FILE',
  }),
  traceFormat: oneOf(TRACE_FORMATS)
    .nullable()
    .default(null)
    .meta({
      description: `One of ${TRACE_FORMATS.join(', ')}. Default: detected from the beginning of the file.`,
      value: 'NAME',
    }),
  traceBlockSize: positive('tokens').nullable().default(null).meta({
    description: 'Tokens per hash id of the trace. Default: 512 for mooncake, 16 for the others.',
    value: 'TOKENS',
  }),
  traceScale: text(wantedScale)
    .refine((value) => scaleDivisor(value) !== null, { error: wantedScale })
    .nullable()
    .default(null)
    .meta({ description: 'Divide every length of the trace by N.', value: '1/N' }),
  speedUp: anyNumber('a number above 0', { above: 0 }).default(1).meta({
    description: 'Speed up arrivals and think times of the trace by this factor; below 1 slows them down.',
    value: 'X',
  }),
  limit: positive('requests').nullable().default(null).meta({
    description: 'Use only the first N requests of the trace.',
    value: 'N',
  }),
  skipBad: flag().default(false).meta({
    description: 'Skip unusable lines; they are counted and listed.',
    value: null,
  }),
  conversationRate: anyNumber('a number above 0', { above: 0 }).default(1).meta({
    description: 'For a trace without times: conversations that begin per second, with Poisson gaps.',
    value: 'R',
  }),
};

/** Pacing of conversations that arrive on their own (open loop). */
export const pacing = {
  thinkTime: time("a time, 0 or more, such as '500ms' or '2s'", { min: 0 }).default(0).meta({
    description:
      "Time from an answer's last token to the next turn, for conversations that arrive at a rate (--arrival-rate, kvferry plan) and for a trace without times.",
    value: 'TIME',
  }),
};
