/**
 * Paths into a JSON report, such as `comparison.ttft_ms.mean.ratio` or `runs.bidirectional.turns[-1].pulled_tokens`. Parses
 * them, follows them through a report, and checks them against a schema. A list element is addressed by its position
 * (negative: from the end) or by its name: its mode, name or id.
 */
import { z } from 'zod';
import { didYouMean } from '../../config/fields.ts';

/** A name, or a position in a list. */
export type Step = string | number;

/** A zod schema as JSON Schema: the part of it that is needed to follow a path without a report. */
export interface PathSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, PathSchema>>;
  readonly additionalProperties?: boolean | PathSchema;
  readonly propertyNames?: PathSchema;
  readonly items?: PathSchema;
  readonly anyOf?: readonly PathSchema[];
  readonly oneOf?: readonly PathSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
}

export const pathSchema = (schema: z.ZodType): PathSchema =>
  z.toJSONSchema(schema, { unrepresentable: 'any', io: 'output' }) as unknown as PathSchema;

/** The fields that can name a list element, in the order in which they are tried. */
const NAMES = [
  'mode',
  'name',
  'label',
  'id',
  'conversation_id',
  'engine_id',
  'role',
  'point',
  'link',
] as const;

export function showPath(steps: readonly Step[]): string {
  return steps
    .map((step, i) => {
      if (typeof step === 'number') return `[${step}]`;
      if (!/^[\w-]+$/.test(step)) return `["${step}"]`;
      return i === 0 ? step : `.${step}`;
    })
    .join('');
}

export type Followed = { found: true; value: unknown } | { found: false; problem: string };

/** `schema` is only used to explain why a value on the way is null. */
export function followPath(report: unknown, steps: readonly Step[], schema?: PathSchema): Followed {
  let value = report;
  for (const [i, step] of steps.entries()) {
    const here = steps.slice(0, i);
    const next = child(value, step);
    if (next === undefined) return { found: false, problem: whyMissing(value, here, step, schema) };
    value = next;
  }
  return { found: true, value };
}

function child(value: unknown, step: Step): unknown {
  if (Array.isArray(value)) {
    if (step === 'length') return value.length;
    const place = typeof step === 'number' ? step : /^\d+$/.test(step) ? Number(step) : null;
    return place === null ? value[namesIn(value).indexOf(String(step))] : value.at(place);
  }
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.hasOwn(value, step) ? (value as Record<string, unknown>)[step] : undefined;
}

/**
 * The elements' names in a path; null for one without. They are taken from the first field that tells all elements apart,
 * such as the label of policies that are compared in one mode; if none does, from the first that any of them has.
 */
function namesIn(list: readonly unknown[]): (string | null)[] {
  const byField = NAMES.map((field) => list.map((element) => textIn(element, field)));
  const distinct = byField.find((names) => !names.includes(null) && new Set(names).size === list.length);
  return distinct ?? list.map((_, i) => byField.find((names) => names[i] !== null)?.[i] ?? null);
}

function textIn(element: unknown, field: string): string | null {
  if (typeof element !== 'object' || element === null) return null;
  const text = (element as Record<string, unknown>)[field];
  return typeof text === 'string' ? text : null;
}

function whyMissing(value: unknown, here: readonly Step[], step: Step, schema?: PathSchema): string {
  const place = here.length === 0 ? 'the report' : showPath(here);
  if (value === null) {
    const meaning = schema && describe(schema, here);
    return `${place} is null${meaning ? ` (${meaning.replace(/\.$/, '')})` : ''}`;
  }
  if (Array.isArray(value)) {
    const names = namesIn(value).filter((name) => name !== null);
    const holds = value.length === 0 ? 'it is empty' : `it has ${value.length}`;
    return typeof step === 'number' || names.length === 0
      ? `${place} has no element ${step}: ${holds}`
      : `${place} has no element '${step}': ${wanted(String(step), names)}`;
  }
  if (typeof value === 'object') return noField(place, step, Object.keys(value as object));
  return `${place} is ${JSON.stringify(value)}, which has no fields`;
}

const MOST_NAMED = 12;

function wanted(found: string, known: readonly string[]): string {
  const unique = [...new Set(known)];
  const named = unique.slice(0, MOST_NAMED).join(', ');
  return `wanted one of ${named}${unique.length > MOST_NAMED ? ', …' : ''}${didYouMean(found, unique)}`;
}

const noField = (place: string, step: Step, known: readonly string[]): string =>
  `there is no '${step}' in ${place}: ${wanted(String(step), known)}`;

/** The schema's description of a place; null if it has none. */
function describe(schema: PathSchema, steps: readonly Step[]): string | null {
  let options = [schema];
  let said: string | null = null;
  for (const step of steps) {
    options = options.flatMap(alternatives).flatMap((option) => below(option, step) ?? []);
    said = options.find(({ description }) => description !== undefined)?.description ?? null;
  }
  return said;
}

/** The possible JSON types of the leaf, or why no report can have the path. */
export type Checked = { types: readonly string[] } | { problem: string };

/** `'anything'` among the types means that the schema leaves it open. */
export function checkPath(schema: PathSchema, steps: readonly Step[]): Checked {
  let options = alternatives(schema);
  for (const [i, step] of steps.entries()) {
    const next = options.flatMap((option) => below(option, step) ?? []).flatMap(alternatives);
    if (next.length === 0) return { problem: whyImpossible(options, steps.slice(0, i), step) };
    options = next;
  }
  const types = [...new Set(options.flatMap(typesOf))];
  // A group that may be null can still be compared with null.
  if (types.length === 0 || !types.every((type) => type === 'object' || type === 'array')) return { types };
  const here = showPath(steps);
  const fields = options.flatMap(({ properties }) => Object.keys(properties ?? {}));
  const names = fields.map((field) => `${here}.${field}`);
  return {
    problem: `${here} is a group: ${names.length > 0 ? wanted('', names) : 'wanted one value below it'}`,
  };
}

function whyImpossible(options: readonly PathSchema[], here: readonly Step[], step: Step): string {
  const place = here.length === 0 ? 'the report' : showPath(here);
  const fields = options.flatMap(({ properties }) => Object.keys(properties ?? {}));
  if (fields.length > 0) return noField(place, step, fields);
  const names = options.flatMap(elementNames);
  if (names.length > 0) return `${place} has no element '${step}': ${wanted(String(step), names)}`;
  if (options.some(({ type }) => type === 'array'))
    return `${place} is a list: wanted a place, such as ${place}[0]`;
  return `${place} is a single value: there is no '${step}' below it`;
}

/** A nullable or a union as its members. */
function alternatives(schema: PathSchema): PathSchema[] {
  const members =
    schema.anyOf ??
    schema.oneOf ??
    (typeof schema.type === 'object' ? schema.type.map((type) => ({ ...schema, type })) : undefined);
  if (!members) return [schema];
  const { description } = schema;
  return members
    .flatMap(alternatives)
    .map((member) => (description === undefined ? member : { description, ...member }));
}

/** null if the schema excludes the step. */
function below(schema: PathSchema, step: Step): PathSchema | null {
  if (isOpen(schema)) return {};
  if (schema.type === 'array') {
    if (step === 'length') return { type: 'integer' };
    const names = elementNames(schema);
    const isPlace = typeof step === 'number' || /^\d+$/.test(step);
    if (!isPlace && names !== ANY_NAME && !names.includes(String(step))) return null;
    return schema.items ?? {};
  }
  if (schema.type !== 'object') return null;
  const property = schema.properties?.[step];
  if (property) return property;
  const extra = schema.additionalProperties;
  if (typeof extra !== 'object') return null;
  const allowed = schema.propertyNames?.enum;
  return allowed && !allowed.includes(String(step)) ? null : extra;
}

const ANY_NAME: readonly string[] = [];

/** The names that a list's elements can have; ANY_NAME if the schema leaves them open, empty if they have none. */
function elementNames({ type, items }: PathSchema): readonly string[] {
  if (type !== 'array') return [];
  const element = items;
  if (!element || isOpen(element)) return ANY_NAME;
  for (const key of NAMES) {
    const options = alternatives(element.properties?.[key] ?? { type: 'null' });
    const names = options.flatMap(
      (option) => (option.enum ?? (option.const === undefined ? [] : [option.const])) as string[],
    );
    if (names.length > 0) return names;
    if (options.some((option) => option.type === 'string')) return ANY_NAME;
  }
  return [`0`];
}

const isOpen = (schema: PathSchema): boolean =>
  schema.type === undefined &&
  schema.properties === undefined &&
  schema.enum === undefined &&
  schema.const === undefined;

function typesOf(schema: PathSchema): string[] {
  if (schema.const !== undefined) return [schema.const === null ? 'null' : typeof schema.const];
  if (schema.enum !== undefined) return schema.enum.map((value) => typeof value);
  if (schema.type === undefined) return ['anything'];
  return [schema.type].flat().map((type) => (type === 'integer' ? 'number' : type));
}
