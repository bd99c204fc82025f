/** What assertions can name before there is a report: its schema, and with --baseline what the comparison adds. */
import { z } from 'zod';
import { type PathSchema, pathSchema } from './report-paths.ts';

const baselineShape = {
  file: z.string(),
  created: z.string(),
  kvferry: z.string(),
  same_machine: z.boolean(),
  differences: z.array(z.string()),
  changed_counts: z.number(),
  better: z.number(),
  worse: z.number(),
  figures: z.array(
    z.strictObject({
      name: z.string(),
      unit: z.string(),
      before: z.number(),
      now: z.number(),
      ratio: z.number().nullable(),
      low: z.number().nullable(),
      high: z.number().nullable(),
      movement: z.enum(['same', 'changed', 'noise', 'better', 'worse', 'not judged']),
    }),
  ),
};

export function assertionSchema(report: z.ZodType, withBaseline: boolean): PathSchema {
  const schema = pathSchema(report);
  if (!withBaseline) return schema;
  const baseline = pathSchema(z.strictObject(baselineShape));
  return {
    ...schema,
    properties: {
      ...schema.properties,
      baseline: { ...baseline, properties: { ...baseline.properties, report: schema } },
    },
  };
}
