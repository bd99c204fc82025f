/** Settings for scaling a server's fleet while it serves: the rule, its bounds, and how engines drain. */
import { z } from 'zod';
import { parsedJson } from './cluster-schema.ts';
import { flag, oneOf, time, wholeNumber } from './fields.ts';
import { MOST_REAL_ENGINES } from './fleet-schema.ts';

/** All autoscaling rules. src/router/autoscale/registry.ts maps each name to its implementation. */
export const AUTOSCALERS = ['aibrix-apa', 'aibrix-kpa', 'k8s-hpa', 'dynamo-sla'] as const;
export type AutoscalerName = (typeof AUTOSCALERS)[number];

/** What happens to the KV that a leaving engine holds for next turns. */
export const DRAINS = ['wait', 'migrate', 'drop'] as const;
export type Drain = (typeof DRAINS)[number];

const bound = (which: string, what: string, fallback: number) =>
  wholeNumber(`a whole number of engines from 1 to ${MOST_REAL_ENGINES}`, { min: 1, max: MOST_REAL_ENGINES })
    .default(fallback)
    .meta({ description: `${which} ${what} engines under --autoscale.`, value: 'N' });

export const scaling = {
  drain: oneOf(DRAINS).default('wait').meta({
    description:
      'What happens to the KV that a leaving engine holds for next turns. wait: the engine stays until they have read it, at most --drain-timeout. migrate: another D takes it over. drop: it is lost, and counted.',
    value: 'wait|migrate|drop',
  }),
  drainTimeout: time('a time such as 30s, or 0', { min: 0 }).nullable().default(null).meta({
    description:
      'How long a leaving engine waits for its held KV to be read; it always waits for running turns. Default: 30s, as in Kubernetes.',
    value: 'TIME',
  }),
  autoscale: oneOf(AUTOSCALERS)
    .nullable()
    .default(null)
    .meta({
      description: `Add and remove engines by load, with the rule of ${AUTOSCALERS.join(', ')} (docs/fleet.md). Default: the number changes only by POST /fleet/scale.`,
      value: 'NAME',
    }),
  autoscaleConfig: z
    .preprocess(
      parsedJson,
      z
        .record(z.string(), z.unknown(), {
          error:
            'parameters by role, such as \'{"prefill":{"target":4}}\', those of dynamo-sla (docs/fleet.md), or a file that contains them',
        })
        .nullable(),
    )
    .default(null)
    .meta({
      description:
        'Parameters of the rule, for prefill and decode each (for dynamo-sla together): JSON, or a JSON file.',
      value: 'JSON|FILE',
    }),
  autoscaleInterval: time('a time above 0, such as 10s', { above: 0 }).nullable().default(null).meta({
    description: "Time between decisions. Default: AIBrix's 10 s, Kubernetes' 15 s, Dynamo's 5 s.",
    value: 'TIME',
  }),
  minPrefill: bound('Fewest', 'P', 1),
  maxPrefill: bound('Most', 'P', 4),
  minDecode: bound('Fewest', 'D', 1),
  maxDecode: bound('Most', 'D', 4),
  explainScaling: flag().default(false).meta({
    description:
      'Print every decision of --autoscale as a small table, not only those that change something.',
    value: null,
  }),
};
