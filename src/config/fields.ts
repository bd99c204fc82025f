/**
 * Field types for user settings. Each accepts values from a command line, a URL or a JSON file. Each error message
 * completes the sentence "wanted …". The settings themselves are in run-schema.ts.
 */
import { closest, distance } from 'fastest-levenshtein';
import { z } from 'zod';
import { ConfigError, messageOf } from '../errors.ts';

/** A setting's entry in help. */
export interface FieldMeta {
  /** One or two sentences: meaning, unit, origin of the default. */
  description: string;
  /** The value's name in help, e.g. 'TOKENS'; null for a switch. */
  value: string | null;
  /** The switch turns the setting off, as `--no-…`. */
  negated?: boolean;
  /** The option may be given without a value. */
  valueOptional?: boolean;
  /** The option may be given several times. */
  repeatable?: boolean;
}

const fromText = (value: unknown): unknown => {
  if (typeof value !== 'string' || value.trim() === '') return value;
  return Number(value);
};

interface Range {
  min?: number;
  /** Exclusive lower bound. */
  above?: number;
  max?: number;
}

function ranged(schema: z.ZodNumber, { min, above, max }: Range, error: string): z.ZodNumber {
  let result = schema;
  if (min !== undefined) result = result.min(min, { error });
  if (above !== undefined) result = result.gt(above, { error });
  if (max !== undefined) result = result.max(max, { error });
  return result;
}

/** `wanted` completes the sentence 'wanted …', e.g. 'a whole number, 0 or more'. */
export function wholeNumber(wanted: string, range: Range) {
  return z.preprocess(fromText, ranged(z.number({ error: wanted }).int({ error: wanted }), range, wanted));
}

export function anyNumber(wanted: string, range: Range) {
  return z.preprocess(fromText, ranged(z.number({ error: wanted }), range, wanted));
}

/** A time in milliseconds, from '50ms', '1s' or a number of milliseconds. */
export function time(wanted: string, range: Range) {
  return z.preprocess(
    (value) => {
      if (typeof value !== 'string') return value;
      const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s)?$/.exec(value.trim()) ?? [];
      return number === undefined ? value : Number(number) * (unit === 's' ? 1000 : 1);
    },
    ranged(z.number({ error: wanted }), range, wanted),
  );
}

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  ...Object.fromEntries(['k', 'm', 'g', 't'].flatMap((unit, i) => [[`${unit}b`, 1000 ** (i + 1)]])),
  ...Object.fromEntries(['ki', 'mi', 'gi', 'ti'].flatMap((unit, i) => [[`${unit}b`, 1024 ** (i + 1)]])),
};

/** A byte count, from '64MiB', '1.5GB' or a number of bytes. */
export function byteCount(wanted: string) {
  return z.preprocess(
    (value) => {
      if (typeof value !== 'string') return value;
      const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/.exec(value.trim().toLowerCase()) ?? [];
      const bytes = BYTE_UNITS[unit];
      return number === undefined || bytes === undefined ? value : Math.round(Number(number) * bytes);
    },
    z.number({ error: wanted }).int({ error: wanted }).positive({ error: wanted }),
  );
}

/** Non-empty text. A number in a JSON file is converted to text. */
export function text(wanted: string) {
  return z.preprocess(
    (value) => (typeof value === 'number' ? String(value) : value),
    z.string({ error: wanted }).min(1, { error: wanted }),
  );
}

export function flag() {
  const words: Record<string, boolean> = { true: true, false: false };
  return z.preprocess(
    (value) => (typeof value === 'string' ? (words[value] ?? value) : value),
    z.boolean({ error: 'true or false' }),
  );
}

type Choices = readonly [string, ...string[]];
/** Spelled out because the type that TypeScript infers is unreadable for library users. */
type Choice<T extends Choices> = z.ZodEnum<{ [K in T[number]]: K }>;

export function oneOf<const T extends Choices>(choices: T): Choice<T> {
  return z.enum(choices, {
    error: ({ input }) => `one of ${choices.join(', ')}${didYouMean(input, choices)}`,
  });
}

/** Several of the choices, as a list or separated by commas; duplicates are removed. */
export function listOf<const T extends Choices>(choices: T): z.ZodPreprocess<z.ZodType<T[number][]>> {
  const wanted = `one or more of ${choices.join(', ')}, separated by commas`;
  const choice = z.enum(choices, { error: ({ input }) => `${wanted}${didYouMean(input, choices)}` });
  return z.preprocess(
    (value) => (typeof value === 'string' ? value.split(',').map((part) => part.trim()) : value),
    z
      .array(choice, { error: wanted })
      .min(1, { error: wanted })
      .transform((list) => [...new Set(list)]),
  );
}

const listed = (value: unknown): unknown =>
  typeof value === 'string' ? value.split(',') : typeof value === 'number' ? [value] : value;

const atLeastOne = (wanted: string, range: Range) =>
  z.array(wholeNumber(wanted, range), { error: wanted }).min(1, { error: wanted });

/** Several whole numbers, as a list or separated by commas. Order and duplicates are kept. */
export function wholeNumberList(wanted: string, range: Range) {
  return z.preprocess(listed, atLeastOne(wanted, range));
}

/** The same for a set of numbers: duplicates are removed. */
export function wholeNumbers(wanted: string, range: Range) {
  return z.preprocess(
    listed,
    atLeastOne(wanted, range).transform((list) => [...new Set(list)]),
  );
}

/** ` (did you mean x?)`, or nothing when no known word is near. */
export function didYouMean(found: unknown, known: readonly string[]): string {
  const near = nearest(found, known);
  return near === null ? '' : ` (did you mean ${near}?)`;
}

/** The closest known word; null if none is close enough. */
export function nearest(found: unknown, known: readonly string[]): string | null {
  if (typeof found !== 'string' || found === '' || known.length === 0) return null;
  const word = found.toLowerCase();
  // Two swapped letters are two edits, so a shorter word may seem closer.
  const sameLetters = known.find((each) => sorted(each.toLowerCase()) === sorted(word));
  const candidate = sameLetters ?? closest(word, [...known]);
  const isPart =
    candidate.length > 2 &&
    (word.includes(candidate.toLowerCase()) || candidate.toLowerCase().includes(word));
  return isPart || levenshteinShare(word, candidate.toLowerCase()) <= 0.4 ? candidate : null;
}

const sorted = (word: string): string => [...word].sort().join('');

function levenshteinShare(a: string, b: string): number {
  return distance(a, b) / Math.max(a.length, b.length);
}

export const positive = (what: string) => wholeNumber(`a whole number of ${what}, 1 or more`, { min: 1 });

export const countFrom0 = (what: string) => wholeNumber(`a whole number of ${what}, 0 or more`, { min: 0 });

/** Parses a file's text as JSON. `wanted` says what the file should contain. Throws ConfigError. */
export function parseJson(text: string, file: string, wanted: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError(`${file} is not JSON (${messageOf(error)}): ${wanted}`, { cause: error });
  }
}

/** The "wanted …" text for schemas without their own messages: vLLM's JSON and policy parameters. */
export function wantedBy(issue: z.core.$ZodIssue): string {
  if (!/^(Too|Invalid)/.test(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_value':
      return `wanted one of ${issue.values.join(', ')}`;
    case 'too_small':
      return `wanted ${issue.inclusive ? `${issue.minimum} or more` : `above ${issue.minimum}`}`;
    case 'too_big':
      return `wanted ${issue.inclusive ? `${issue.maximum} or less` : `below ${issue.maximum}`}`;
    case 'invalid_type':
      return `wanted ${TYPES[issue.expected] ?? issue.expected}`;
    default:
      return issue.message;
  }
}

const TYPES: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  tuple: 'a list',
};
