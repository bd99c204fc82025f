/** How many engines a server has while it serves: by whose rule that is decided, within which bounds, and what becomes of who leaves. */
import { z } from 'zod';
import { parsedJson } from './cluster-schema.ts';
import { flag, oneOf, time, wholeNumber } from './fields.ts';

/** Every rule that there is; src/router/autoscale/registry.ts says what makes each. */
export const AUTOSCALERS = ['aibrix-apa', 'aibrix-kpa', 'k8s-hpa', 'dynamo-sla'] as const;
export type AutoscalerName = (typeof AUTOSCALERS)[number];

/** What becomes of what a leaving engine holds for next turns. */
export const DRAINS = ['wait', 'migrate', 'drop'] as const;
export type Drain = (typeof DRAINS)[number];

const bound = (which: string, what: string, fallback: number) =>
  wholeNumber('a whole number of engines from 1 to 64', { min: 1, max: 64 })
    .default(fallback)
    .meta({ description: `${which} so many ${what} under --autoscale.`, value: 'N' });

export const scaling = {
  drain: oneOf(DRAINS).default('wait').meta({
    description:
      'What becomes of what an engine that leaves holds for next turns. wait: it stays until they have read it, or --drain-timeout is over. migrate: another D takes it over. drop: it is lost, and counted.',
    value: 'wait|migrate|drop',
  }),
  drainTimeout: time('a time such as 30s, or 0', { min: 0 }).nullable().default(null).meta({
    description:
      'How long what is held is waited for; turns under way are waited for however long they take. Left out: 30s, as Kubernetes gives.',
    value: 'TIME',
  }),
  autoscale: oneOf(AUTOSCALERS)
    .nullable()
    .default(null)
    .meta({
      description: `Engines come and go by load, by the rule of ${AUTOSCALERS.join(', ')} (docs/fleet.md). Left out: there are as many as at the start, or as POST /fleet/scale says.`,
      value: 'NAME',
    }),
  autoscaleConfig: z
    .preprocess(
      parsedJson,
      z
        .record(z.string(), z.unknown(), {
          error: 'parameters by role, such as \'{"prefill":{"target":4}}\', or a file of them',
        })
        .nullable(),
    )
    .default(null)
    .meta({
      description: "The rule's parameters, for prefill and decode each: JSON, or a file of it.",
      value: 'JSON|FILE',
    }),
  autoscaleInterval: time('a time above 0, such as 10s', { above: 0 }).nullable().default(null).meta({
    description: "How often is decided. Left out: AIBrix's 10 s, Kubernetes' 15 s, Dynamo's 5 s.",
    value: 'TIME',
  }),
  minPrefill: bound('At least', 'P', 1),
  maxPrefill: bound('At most', 'P', 4),
  minDecode: bound('At least', 'D', 1),
  maxDecode: bound('At most', 'D', 4),
  explainScaling: flag().default(false).meta({
    description:
      'Tells every decision of --autoscale in a small table, not only those that change something.',
    value: null,
  }),
};
