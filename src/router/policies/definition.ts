/** What defines a routing policy: its help, its source, what it looks at, and its parameters with their defaults. */
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import type { z } from 'zod';
import type { KvBytes } from '../../connector/policy/cost-model.ts';
import { seededGenerator } from '../../seeded.ts';
import type { RoutingPolicy } from '../plan.ts';

/** What policies may need in addition to the views. */
export interface RoutingDeps {
  /** Random draws for a turn, 0 <= x < 1: the same for the same turn, so that routing changes no state. */
  draws: (turn: number) => () => number;
  /** Tokens per KV block. */
  blockSize: number;
  /** Bytes that tokens' KV takes in a transfer. */
  kvBytes: KvBytes;
}

export interface PolicyDefinition {
  /** What it does, in one line, for help. */
  help: string;
  /** The project or paper that the rule comes from. */
  source: string;
  /**
   * What engines report only while the active policy needs it: their load (`signals`), their prefix caches
   * (`cachedTokens`).
   */
  needs: readonly ('load' | 'cache')[];
  /** Strict; every field has a default. */
  parameters: z.ZodObject;
  /**
   * Converts the source's own configuration format to these parameters. Absent: parameters are used unchanged. `name`: the
   * policy's, for messages. Throws ConfigError.
   */
  translate?(parameters: unknown, name: string): unknown;
  /** `parameters`: complete and checked (readParameters in registry.ts). */
  create(parameters: unknown, deps: RoutingDeps): RoutingPolicy;
}

/** Lets the compiler check `create` against the schema of the parameters. */
export const definePolicy = <Schema extends z.ZodObject>(
  definition: Omit<PolicyDefinition, 'create' | 'parameters'> & {
    parameters: Schema;
    create(parameters: z.output<Schema>, deps: RoutingDeps): RoutingPolicy;
  },
): PolicyDefinition => ({
  ...definition,
  create: (parameters, deps) => definition.create(parameters as z.output<Schema>, deps),
});

/** Names a place in a policy's parameters, for messages. */
export const inRoutingConfig = (name: string) => (path: readonly PropertyKey[]) =>
  `--routing-config: ${[name, ...path].join('.')}`;

/** Random draws per turn, from one seed. */
export const seededDraws = (seed: number) => (turn: number) => {
  const generator = seededGenerator(seed, turn);
  return () => uniformFloat64(generator);
};
