/**
 * Names of the routing policies, as users write them. src/router/policies/registry.ts maps each name to its
 * implementation.
 */
import { z } from 'zod';
import { parsedJson } from './cluster-schema.ts';
import { didYouMean, flag, text, time } from './fields.ts';

export const ROUTING_NAMES = [
  'round-robin',
  'random',
  'power-of-two',
  'least-request',
  'session-affinity',
  'prefix-cache',
  'aibrix-pd',
  'llm-d',
  'dynamo',
  'sglang',
  'mooncake',
  'least-ttft',
] as const;
export type RoutingName = (typeof ROUTING_NAMES)[number];

/** Names of the user's own policies (src/router/policies/own.ts), which are added before settings are read. */
const ownNames = new Set<string>();

/** Every policy that can be chosen in this process. */
export const routingNames = (): readonly string[] => [...ROUTING_NAMES, ...ownNames];

export const addRoutingName = (name: string): void => void ownNames.add(name);

/** The active routing: one policy, or a weighted mix of several. */
export interface RoutingChoice {
  /** As it was written: 'least-request', or 'least-request:1,prefix-cache:2'. */
  name: string;
  /** Parameters by policy name; the registry defines them. */
  parameters: Readonly<Record<string, unknown>>;
}

export const DEFAULT_ROUTING: RoutingChoice = { name: 'round-robin', parameters: {} };

/** The policies of a choice with their weights; a single policy has weight 1. */
export function routingParts(name: string): { name: string; weight: number }[] {
  return name.split(',').map((part) => {
    const [policy = '', weight = '1'] = part.split(':');
    return { name: policy, weight: Number(weight) };
  });
}

const wanted = (): string =>
  `policies separated by commas, from ${routingNames().join(', ')}; weights (least-request:1,prefix-cache:2) combine them into one mix`;

/** Adjacent policies with weights form one mix: 'a,b:1,c:2' is two choices, 'a' and 'b:1,c:2'. */
export function routingChoices(value: unknown): unknown {
  const parts = typeof value === 'string' ? value.split(',').map((part) => part.trim()) : value;
  if (!Array.isArray(parts) || typeof value !== 'string') return parts;
  const choices = parts.reduce<string[]>((all, part, i) => {
    const joins = part.includes(':') && i > 0 && parts[i - 1]!.includes(':');
    if (joins) all.push(`${all.pop()},${part}`);
    else all.push(part);
    return all;
  }, []);
  return [...new Set(choices)];
}

/** The "wanted" text for an invalid name; null if it is a valid policy or mix. */
export function routingProblem(name: string): string | null {
  for (const { name: policy, weight } of routingParts(name)) {
    if (!routingNames().includes(policy))
      return `${wanted()}: there is no '${policy}'${didYouMean(policy, routingNames())}`;
    if (!(weight > 0 && Number.isFinite(weight))) return `a weight above 0 for ${policy}`;
  }
  return null;
}

export const routing = {
  routing: z
    .preprocess(
      routingChoices,
      z
        .array(
          z.string({ error: wanted }).superRefine((name, context) => {
            const message = routingProblem(name);
            if (message !== null) context.addIssue({ code: 'custom', message });
          }),
          { error: wanted },
        )
        .min(1, { error: wanted }),
    )
    .default([DEFAULT_ROUTING.name])
    .meta({
      description: `The policy that picks the engines for a turn: ${ROUTING_NAMES.join(', ')}. Several with weights (a:1,b:2) form one mix, as in AIBrix. bench compares all that are given. docs/fleet.md describes them.`,
      value: 'NAME[,NAME…]',
    }),
  routingConfig: z
    .preprocess(
      parsedJson,
      z
        .record(z.string(), z.unknown(), {
          error:
            'parameters by policy, such as \'{"prefix-cache":{"imbalance":16}}\', or a file that contains them',
        })
        .nullable(),
    )
    .default(null)
    .meta({
      description: 'Policy parameters, keyed by policy: JSON, or a JSON file.',
      value: 'JSON|FILE',
    }),
  routingModule: text('a JavaScript module that exports a routing policy').nullable().default(null).meta({
    description:
      'A JavaScript module with routing policies of your own (docs/fleet.md shows one): --routing takes their names, and without --routing they are used.',
    value: 'FILE',
  }),
  signalAge: time('a time such as 50ms or 1s, or 0', { min: 0 }).default(0).meta({
    description:
      "Age of a policy's view of engine load and caches, like that of a scraped metric; 0: always current.",
    value: 'TIME',
  }),
};

/** Reporting of decisions; does not change them. */
export const explaining = {
  explainRouting: flag().default(false).meta({
    description:
      'Print each routing decision: the candidates, what was known about each, the choice and its reason, and the outcome.',
    value: null,
  }),
};
