/** Settings for looking closer at a run: where its milliseconds went, moment by moment and kernel by kernel. */
import { z } from 'zod';
import { flag, text } from './fields.ts';

const turnNumber = { error: 'true, false or the number of a turn' };

export const traceFile = {
  traceOut: text("a file's name").nullable().default(null).meta({
    description: 'Write every stage of every turn as a Chrome trace to FILE; ui.perfetto.dev opens it.',
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
        "Draw a turn's way to its first token, stage by stage: the last turn of the last mode, or turn N of it.",
      value: 'N',
      valueOptional: true,
    }),
  profile: flag().default(false).meta({
    description:
      "Run the last mode once more, with each kernel timed by the device's own clock, and print a table of kernels. That run is slower and in no other figure.",
    value: null,
  }),
};
