/** Every autoscaler by its name. */
import { z } from 'zod';
import { ConfigError } from '../../errors.ts';
import { AibrixApa, AibrixKpa, apaSchema, kpaSchema } from './aibrix.ts';
import { DynamoSla, dynamoSlaSchema } from './dynamo-sla.ts';
import { hpaSchema, KubernetesHpa } from './k8s-hpa.ts';
import { type Autoscaler, eachRole, type RoleScaler } from './types.ts';

export const AUTOSCALERS = ['aibrix-apa', 'aibrix-kpa', 'k8s-hpa', 'dynamo-sla'] as const;
export type AutoscalerName = (typeof AUTOSCALERS)[number];

/** `given`: an object for each role, dynamo-sla's for both. Throws ConfigError that names what is wrong. */
export function makeAutoscaler(name: AutoscalerName, given: unknown): Autoscaler {
  switch (name) {
    case 'aibrix-apa':
      return byRole(name, apaSchema, given, (parameters) => new AibrixApa(parameters));
    case 'aibrix-kpa':
      return byRole(name, kpaSchema, given, (parameters) => new AibrixKpa(parameters));
    case 'k8s-hpa':
      return byRole(name, hpaSchema, given, (parameters) => new KubernetesHpa(parameters));
    case 'dynamo-sla':
      return new DynamoSla(parsed(name, dynamoSlaSchema, given));
  }
}

function byRole<Schema extends z.ZodObject>(
  name: AutoscalerName,
  schema: Schema,
  given: unknown,
  make: (parameters: z.output<Schema>) => RoleScaler,
): Autoscaler {
  const { prefill, decode } = parsed(name, eachOfThem, given);
  return eachRole({
    prefill: make(parsed(`${name}, prefill`, schema, prefill)),
    decode: make(parsed(`${name}, decode`, schema, decode)),
  });
}

const eachOfThem = z.strictObject({ prefill: z.unknown(), decode: z.unknown() });

function parsed<Schema extends z.ZodObject>(name: string, schema: Schema, given: unknown): z.output<Schema> {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  throw new ConfigError(`--autoscale ${name}: ${path.join('.') || 'its parameters'}: ${message}`);
}
