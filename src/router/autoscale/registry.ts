/** Every autoscaler by its name, and the construction of one from a user's choice. */
import { z } from 'zod';
import type { AutoscalerName } from '../../config/autoscale.ts';
import { didYouMean } from '../../config/fields.ts';
import { parseParameters } from '../../config/parameters.ts';
import { ConfigError } from '../../errors.ts';
import type { EngineRole } from '../engine-client.ts';
import { AibrixApa, AibrixKpa, apaSchema, kpaSchema } from './aibrix.ts';
import { DynamoSla, dynamoSlaSchema } from './dynamo-sla.ts';
import { hpaSchema, KubernetesHpa } from './k8s-hpa.ts';
import { METRIC_NAMES, type MetricName } from './metrics.ts';
import { type Autoscaler, type Bounds, eachRole, type RoleScaler } from './types.ts';

/** The user's choice. */
export interface AutoscaleChoice {
  name: AutoscalerName;
  /** One object each for prefill and decode; for dynamo-sla, one for both. Missing values have their defaults. */
  parameters: Readonly<Record<string, unknown>>;
  /** null: the interval of the autoscaler's source (INTERVAL_MS). */
  intervalMs: number | null;
  bounds: Readonly<Record<EngineRole, Bounds>>;
}

/** Milliseconds between decisions: AIBrix's resync, Kubernetes' sync period, Dynamo's load loop. */
export const INTERVAL_MS: Readonly<Record<AutoscalerName, number>> = {
  'aibrix-apa': 10_000,
  'aibrix-kpa': 10_000,
  'k8s-hpa': 15_000,
  'dynamo-sla': 5_000,
};

/** As in AIBrix's samples: prefill by its queue, decode by its batch. */
const DEFAULTS = {
  prefill: { metric: 'waiting', target: 10 },
  decode: { metric: 'batch', target: 70 },
} as const;

type RoleSchema = z.ZodObject<{ target: z.ZodNumber }>;
/** Of the rules that look at one role at a time. */
const SCHEMAS: Readonly<Record<Exclude<AutoscalerName, 'dynamo-sla'>, RoleSchema>> = {
  'aibrix-apa': apaSchema,
  'aibrix-kpa': kpaSchema,
  'k8s-hpa': hpaSchema,
};

/** The rule's parameters and its metric, with a role's defaults. */
const ofRole = (schema: RoleSchema, role: EngineRole, { min, max }: Bounds) =>
  schema.extend({
    metric: z.enum(METRIC_NAMES).default(DEFAULTS[role].metric),
    target: z.number().positive().default(DEFAULTS[role].target),
    minEngines: z.int().default(min),
    maxEngines: z.int().default(max),
  });

/** `metrics`: the metric of each role; null: measured turn times. */
export interface BuiltAutoscaler {
  autoscaler: Autoscaler;
  metrics: Readonly<Record<EngineRole, MetricName>> | null;
}

/**
 * The user's parameters take precedence over the bounds, and these over the defaults. Throws ConfigError that names
 * what is wrong.
 */
export function autoscalerOf({ name, parameters, bounds }: AutoscaleChoice): BuiltAutoscaler {
  for (const [role, { min, max }] of Object.entries(bounds))
    if (min > max)
      throw new ConfigError(
        `--min-${role} is ${min} and --max-${role} is ${max}: give a range that is not empty`,
      );
  if (name === 'dynamo-sla') {
    const maxEngines = bounds.prefill.max + bounds.decode.max;
    const minEndpoint = Math.min(bounds.prefill.min, bounds.decode.min);
    const validated = parsed(name, dynamoSlaSchema, { maxEngines, minEndpoint, ...parameters });
    return { autoscaler: new DynamoSla(validated, bounds), metrics: null };
  }
  const roles = ['prefill', 'decode'] as const;
  const unknown = Object.keys(parameters).find((role) => !roles.some((known) => known === role));
  if (unknown !== undefined)
    throw new ConfigError(
      `--autoscale-config has parameters for '${unknown}'${didYouMean(unknown, roles)}: wanted prefill and decode`,
    );
  const metrics: Record<EngineRole, MetricName> = { prefill: 'waiting', decode: 'batch' };
  const byRoleParameters: Partial<Record<EngineRole, unknown>> = {};
  for (const role of roles) {
    const schema = ofRole(SCHEMAS[name], role, bounds[role]);
    const { metric, ...rest } = parsed(`${name}, ${role}`, schema, parameters[role] ?? {});
    metrics[role] = metric;
    byRoleParameters[role] = rest;
  }
  return { autoscaler: makeAutoscaler(name, byRoleParameters), metrics };
}

/** `parameters`: one object per role; for dynamo-sla, one for both. Throws ConfigError that names what is wrong. */
export function makeAutoscaler(name: AutoscalerName, parameters: unknown): Autoscaler {
  switch (name) {
    case 'aibrix-apa':
      return byRole(name, apaSchema, parameters, (parameters) => new AibrixApa(parameters));
    case 'aibrix-kpa':
      return byRole(name, kpaSchema, parameters, (parameters) => new AibrixKpa(parameters));
    case 'k8s-hpa':
      return byRole(name, hpaSchema, parameters, (parameters) => new KubernetesHpa(parameters));
    case 'dynamo-sla':
      return new DynamoSla(parsed(name, dynamoSlaSchema, parameters));
  }
}

function byRole<Schema extends z.ZodObject>(
  name: AutoscalerName,
  schema: Schema,
  parameters: unknown,
  make: (parameters: z.output<Schema>) => RoleScaler,
): Autoscaler {
  const { prefill, decode } = parsed(name, perRole, parameters);
  return eachRole({
    prefill: make(parsed(`${name}, prefill`, schema, prefill)),
    decode: make(parsed(`${name}, decode`, schema, decode)),
  });
}

const perRole = z.strictObject({ prefill: z.unknown(), decode: z.unknown() });

/** `name`: of the autoscaler, and of the part that is checked. */
const parsed = <Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  parameters: unknown,
): z.output<Schema> =>
  parseParameters(schema, parameters, (path) =>
    [`--autoscale ${name}`, ...(path.length === 0 ? [] : [path.join('.')])].join(', '),
  );
