/** Parameters that a user gives as JSON, checked by a zod schema, and errors that list what the schema takes. */
import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { didYouMean, wantedBy } from './fields.ts';

/** `where` names a place in the parameters for messages. Throws ConfigError for the first thing that is wrong. */
export function parseParameters<Schema extends z.ZodType>(
  schema: Schema,
  parameters: unknown,
  where: (path: readonly PropertyKey[]) => string,
): z.output<Schema> {
  const result = schema.safeParse(parameters);
  if (result.success) return result.data;
  const { issues } = result.error;
  // A missing key may be a misspelt one.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]!;
  if (issue.code === 'unrecognized_keys') {
    const [unknown = ''] = issue.keys;
    const known = objectAt(schema, issue.path)?.shape ?? {};
    throw new ConfigError(
      `${where(issue.path)} has no parameter '${unknown}'${didYouMean(unknown, Object.keys(known))}; ${takes(known)}`,
    );
  }
  const found = issue.path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key],
    parameters,
  );
  throw new ConfigError(
    `${where(issue.path)} is ${JSON.stringify(found) ?? 'not given'}: ${wantedBy(issue)}`,
  );
}

function takes(shape: z.ZodObject['shape']): string {
  const keys = Object.entries(shape).map(([key, schema]) => inWords(key, schema as z.ZodType));
  return keys.length === 0 ? 'it has none' : `it has, defaults first, ${keys.join(', ')}`;
}

/** `picker=max-score-picker|weighted-random-picker`; without a default only the key. */
function inWords(key: string, schema: z.ZodType): string {
  const { inner, fallback } = unwrapped(schema);
  const first =
    fallback === undefined ? [] : [typeof fallback === 'string' ? fallback : JSON.stringify(fallback)];
  const choices = inner instanceof z.ZodEnum ? inner.options.map(String) : [];
  const values = [...new Set([...first, ...choices])];
  return values.length === 0 ? key : `${key}=${values.join('|')}`;
}

/** The schema without the wrappers that make it optional, and its default. */
function unwrapped(schema: z.ZodType): { inner: z.ZodType; fallback: unknown } {
  let inner = schema;
  let fallback: unknown;
  while (inner instanceof z.ZodDefault || inner instanceof z.ZodOptional || inner instanceof z.ZodNullable) {
    if (inner instanceof z.ZodDefault) fallback ??= inner.def.defaultValue;
    inner = inner.unwrap() as z.ZodType;
  }
  return { inner, fallback };
}

/** The object schema at a path; null if there is something else. */
function objectAt(schema: z.ZodType, path: readonly PropertyKey[]): z.ZodObject | null {
  const { inner } = unwrapped(schema);
  const [key, ...rest] = path;
  if (key === undefined) return inner instanceof z.ZodObject ? inner : null;
  const next =
    inner instanceof z.ZodArray
      ? inner.element
      : inner instanceof z.ZodObject
        ? inner.shape[String(key)]
        : undefined;
  return next === undefined ? null : objectAt(next as z.ZodType, rest);
}
