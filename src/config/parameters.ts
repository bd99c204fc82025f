/** Parameters that a user gives as JSON, checked by a zod schema, and errors that list what the schema takes. */
import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { didYouMean, wantedBy } from './fields.ts';
import { shownJson } from './shown.ts';

/** `where` names a place in the parameters for messages. Throws ConfigError for the first thing that is wrong. */
export function parseParameters<Schema extends z.ZodType>(
  schema: Schema,
  parameters: unknown,
  where: (path: readonly PropertyKey[]) => string,
): z.output<Schema> {
  const result = schema.safeParse(parameters);
  if (result.success) return result.data;
  const [issue, ...alternatives] = reasons(result.error.issues) as [Issue, ...Issue[]];
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
  const wanted = [issue, ...alternatives].map(wantedBy).join(' or ').replaceAll(' or wanted ', ' or ');
  throw new ConfigError(
    `${where(issue.path)} is ${found === undefined ? 'not given' : shownJson(found)}: ${wanted}`,
  );
}

type Issue = z.core.$ZodIssue;

/** The first thing that is wrong. In a union it is what is wrong with the alternative of the given kind, or one for each if there is none. */
function reasons(issues: readonly Issue[]): Issue[] {
  // A missing key may be a misspelt one.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]!;
  if (issue.code !== 'invalid_union') return [issue];
  const all = issue.errors.flatMap((errors) => reasons(errors));
  const ofTheKind = all.find(({ code, path }) => path.length > 0 || code !== 'invalid_type');
  return (ofTheKind ? [ofTheKind] : all).map((each) => ({ ...each, path: [...issue.path, ...each.path] }));
}

function takes(shape: z.ZodObject['shape']): string {
  const keys = Object.entries(shape).map(([key, schema]) => inWords(key, schema as z.ZodType));
  return keys.length === 0 ? 'it has none' : `it has, defaults first, ${keys.join(', ')}`;
}

/** `picker=max-score-picker|weighted-random-picker`, the default first; without a default `type: a|b`, or only the key. */
function inWords(key: string, schema: z.ZodType): string {
  const { inner, fallback } = unwrapped(schema);
  const choices = inner instanceof z.ZodEnum ? inner.options.map(String) : [];
  if (fallback === undefined) return choices.length === 0 ? key : `${key}: ${choices.join('|')}`;
  const first = typeof fallback === 'string' && fallback !== '' ? fallback : JSON.stringify(fallback);
  return `${key}=${[first, ...choices.filter((choice) => choice !== first)].join('|')}`;
}

const WRAPPERS = [z.ZodDefault, z.ZodPrefault, z.ZodOptional, z.ZodNullable];

/** The schema without the wrappers that make it optional, and its default. */
function unwrapped(schema: z.ZodType): { inner: z.ZodType; fallback: unknown } {
  let inner = schema;
  let fallback: unknown;
  while (WRAPPERS.some((kind) => inner instanceof kind)) {
    if (inner instanceof z.ZodDefault || inner instanceof z.ZodPrefault) fallback ??= inner.def.defaultValue;
    inner = (inner as z.ZodOptional<z.ZodType>).unwrap();
  }
  return { inner, fallback };
}

/** The object schema at a path; null if there is something else. */
function objectAt(schema: z.ZodType, path: readonly PropertyKey[]): z.ZodObject | null {
  const { inner } = unwrapped(schema);
  if (inner instanceof z.ZodUnion)
    return (
      inner.options.map((option) => objectAt(option as z.ZodType, path)).find((found) => found !== null) ??
      null
    );
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
