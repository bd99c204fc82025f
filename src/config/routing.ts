/**
 * Which policy routes, as a user names it. Every name that there is stands here; src/router/policies/registry.ts says what
 * makes each.
 */
import { z } from 'zod';
import { parsedJson } from './cluster-schema.ts';
import { didYouMean, flag, time } from './fields.ts';

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

/** What is in force: one policy, or a mix of several by weight. */
export interface RoutingChoice {
  /** As it was written: 'least-request', or 'least-request:1,prefix-cache:2'. */
  name: string;
  /** By policy's name; the registry knows which there are. */
  parameters: Readonly<Record<string, unknown>>;
}

export const DEFAULT_ROUTING: RoutingChoice = { name: 'round-robin', parameters: {} };

/** What a choice's name says: each policy with its weight, which is 1 for a policy alone. */
export function routingParts(name: string): { name: RoutingName; weight: number }[] {
  return name.split(',').map((part) => {
    const [policy, weight = '1'] = part.split(':');
    return { name: policy as RoutingName, weight: Number(weight) };
  });
}

const WANTED = `policies with commas between, of ${ROUTING_NAMES.join(', ')}; with weights (least-request:1,prefix-cache:2) they are mixed into one`;

/** Neighbours with weights are one mix: 'a,b:1,c:2' is two choices, 'a' and 'b:1,c:2'. */
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

/** What is wanted in place of it; null: it is a policy or a mix. */
export function routingProblem(name: string): string | null {
  for (const { name: policy, weight } of routingParts(name)) {
    if (!ROUTING_NAMES.includes(policy))
      return `${WANTED}: there is no '${policy}'${didYouMean(policy, ROUTING_NAMES)}`;
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
          z.string({ error: WANTED }).superRefine((name, context) => {
            const message = routingProblem(name);
            if (message !== null) context.addIssue({ code: 'custom', message });
          }),
          { error: WANTED },
        )
        .min(1, { error: WANTED }),
    )
    .default([DEFAULT_ROUTING.name])
    .meta({
      description: `Who serves a turn, by which rule: ${ROUTING_NAMES.join(', ')}. Several with weights (a:1,b:2) are one mix, as AIBrix mixes them. bench compares those that are given. docs/fleet.md says what each looks at.`,
      value: 'NAME[,NAME…]',
    }),
  routingConfig: z
    .preprocess(
      parsedJson,
      z
        .record(z.string(), z.unknown(), {
          error: 'parameters by policy, such as \'{"prefix-cache":{"imbalance":16}}\', or a file of them',
        })
        .nullable(),
    )
    .default(null)
    .meta({
      description: 'Parameters of the policies, by policy: JSON, or a file of it.',
      value: 'JSON|FILE',
    }),
  signalAge: time('a time such as 50ms or 1s, or 0', { min: 0 }).default(0).meta({
    description:
      "How old what a policy knows of the engines' load and caches is, as a scraped metric would be; 0: as it is now.",
    value: 'TIME',
  }),
};

/** What is told of decisions; none is changed by it. */
export const explaining = {
  explainRouting: flag().default(false).meta({
    description:
      'Print each routing decision: who could have served, what was known of each, who was chosen and why, and what came of it.',
    value: null,
  }),
};
