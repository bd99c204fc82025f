/** What a policy is before it is made: its name's meaning, what it looks at, and its parameters with their defaults. */
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import type { z } from 'zod';
import type { KvBytes } from '../../connector/policy/cost-model.ts';
import { seededGenerator } from '../../seeded.ts';
import type { RoutingPolicy } from '../plan.ts';

/** What policies may need beyond the views. */
export interface RoutingDeps {
  /** Draws for a turn, 0 <= x < 1: the same for the same turn, so that routing only reads. */
  draws: (turn: number) => () => number;
  /** Tokens a KV block holds. */
  blockSize: number;
  /** What tokens' KV takes on its way. */
  kvBytes: KvBytes;
}

export interface PolicyDefinition {
  /** For help: what it does, in a line. */
  help: string;
  /** Whose rule it is. */
  source: string;
  /** What engines tell only while somebody wants it: their load (`signals`), their prefix caches (`cachedTokens`). */
  looksAt: readonly ('load' | 'cache')[];
  /** Strict; every field has a default. */
  parameters: z.ZodObject;
  /** `given`, which was not checked, with what is left out. Throws ZodError. */
  read(given: unknown): Readonly<Record<string, unknown>>;
  /** The same made to a policy. Throws ZodError. */
  create(given: unknown, deps: RoutingDeps): RoutingPolicy;
}

export function definePolicy<Schema extends z.ZodObject>(
  definition: Omit<PolicyDefinition, 'create' | 'read' | 'parameters'> & {
    parameters: Schema;
    create(parameters: z.output<Schema>, deps: RoutingDeps): RoutingPolicy;
    /** From the shapes that its source's users write to these parameters; absent: they are written as they are. */
    translate?(given: unknown): unknown;
  },
): PolicyDefinition {
  const { parameters, create, translate = (given) => given, ...told } = definition;
  const read = (given: unknown): z.output<Schema> => parameters.parse(translate(given)) as z.output<Schema>;
  return { ...told, parameters, read, create: (given, deps) => create(read(given), deps) };
}

/** Draws by turn from one seed. */
export const seededDraws = (seed: number) => (turn: number) => {
  const generator = seededGenerator(seed, turn);
  return () => uniformFloat64(generator);
};
