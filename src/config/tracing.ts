/** Settings for examining a run: timelines, traces and kernel profiles. */
import { z } from 'zod';
import { flag, text } from './fields.ts';

const turnNumber = { error: 'true, false or the number of a turn' };

export const traceFile = {
  traceOut: text("a file's name").nullable().default(null).meta({
    description: 'Write every stage of every turn to FILE as a Chrome trace, for ui.perfetto.dev.',
    value: 'FILE',
  }),
};

export const tracing = {
  gantt: z
    .preprocess(
      (value) => {
        if (value === 'true') return true;
        if (value === 'false') return false;
        return typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
      },
      z.union([z.boolean(), z.number().int(turnNumber).min(1, turnNumber)], turnNumber),
    )
    .default(false)
    .meta({
      description:
        'Draw the stages of a turn up to its first token: the last turn of the last mode, or its turn N.',
      value: 'N',
      valueOptional: true,
    }),
  profile: flag().default(false).meta({
    description:
      "Run the last mode once more, timing each kernel with the device's clock, and print a table of kernels. That run is slower and does not count in other figures.",
    value: null,
  }),
};
