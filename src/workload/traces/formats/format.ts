/** The interface of trace formats, and what several of them share. */
import { z } from 'zod';
import { shownJson } from '../../../config/shown.ts';
import type { TraceFormat } from '../../../config/trace-formats.ts';
import { messageOf } from '../../../errors.ts';
import type { TraceRequest } from '../types.ts';

/** A request as a file has it: its time is on the file's own clock. */
export type RawRequest = Omit<TraceRequest, 'index' | 'line' | 'arrivalMs' | 'answeredMs'> & {
  /** Milliseconds; null: the file does not say. */
  timeMs: number | null;
  /** Milliseconds from then to the last token of the answer; absent or null: the file does not say. */
  answeredMs?: number | null;
};

/** What a line contains: requests (none for a heading), or what is wrong with it. */
export type Parsed = readonly RawRequest[] | { bad: string };

export interface LineContext {
  /** Tokens that a hash id stands for. */
  traceBlockSize: number;
  countTokens(text: string): number;
}

export interface FormatReader {
  name: TraceFormat;
  /** Default, if the user gives none. */
  traceBlockSize: number;
  /** object: JSON, on one line or several. */
  unit: 'line' | 'object';
  parse(text: string, context: LineContext): Parsed;
}

export const isBad = (parsed: Parsed): parsed is { bad: string } => 'bad' in parsed;

/** Far more than any context: a longer length is a damaged one, and its blocks would not fit into memory. */
const MOST_TOKENS = 1e8;
const wantedTokens = 'a whole number of tokens, from 1 to 100 million';
export const tokens = z
  .number({ error: wantedTokens })
  .int(wantedTokens)
  .min(1, wantedTokens)
  .max(MOST_TOKENS, wantedTokens);
const wantedTime = 'a time, 0 or more';
export const time = z.number({ error: wantedTime }).min(0, wantedTime);
/** Checked without zod's check of each element, since there are many. */
export const ids = (wanted: string) =>
  z.custom<number[]>(
    (value) => Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0),
    wanted,
  );

/** A JSON object of a known shape, or what is wrong with it. */
export function parseObject<S extends z.ZodType>(
  text: string,
  schema: S,
): { value: z.infer<S> } | { bad: string } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return { bad: `it is not JSON (${messageOf(error)})` };
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    return { bad: `it is ${shownJson(json)}: wanted an object, one request a line` };
  const result = schema.safeParse(json);
  if (result.success) return { value: result.data };
  const { path, message } = result.error.issues[0]!;
  const found = path.reduce<unknown>(
    (value, key) => (Object(value) as Record<PropertyKey, unknown>)[key],
    json,
  );
  return { bad: `${path.map(String).join('.') || 'it'} is ${shownJson(found)}: wanted ${message}` };
}

/** What is wrong with the number of ids; null: nothing. */
export function wrongCount(
  hashIds: readonly number[],
  inputTokens: number,
  { traceBlockSize }: LineContext,
): string | null {
  const wanted = Math.ceil(inputTokens / traceBlockSize);
  if (hashIds.length === wanted) return null;
  return `${hashIds.length} hash ${hashIds.length === 1 ? 'id' : 'ids'} for ${inputTokens} tokens: wanted ${wanted}, one for each ${traceBlockSize} tokens (--trace-block-size sets this)`;
}

/** Cells of a line of CSV by their headings, or what is wrong. Quotes around a cell are dropped; cells hold no commas. */
export function cells(text: string, headings: readonly string[]): Record<string, string> | { bad: string } {
  const found = text.split(',').map((cell) => cell.trim().replace(/^"(.*)"$/, '$1'));
  if (found.length !== headings.length)
    return {
      bad: `${found.length} ${found.length === 1 ? 'cell' : 'cells'}: wanted ${headings.length} (${headings.join(', ')})`,
    };
  return Object.fromEntries(headings.map((heading, i) => [heading, found[i]!]));
}

/** Seconds in a cell, or what is wrong. */
export function secondsIn(cell: string, heading: string): number | { bad: string } {
  const number = cell === '' ? Number.NaN : Number(cell);
  if (Number.isFinite(number) && number >= 0) return number;
  return { bad: `${heading} is ${cell === '' ? 'empty' : cell}: wanted seconds, 0 or more` };
}

/** A length in a cell, or what is wrong. */
export function tokensIn(cell: string | undefined, heading: string): number | { bad: string } {
  const number = cell === undefined || cell === '' ? Number.NaN : Number(cell);
  if (Number.isInteger(number) && number >= 1 && number <= MOST_TOKENS) return number;
  return { bad: `${heading} is ${cell === '' ? 'empty' : cell}: wanted ${wantedTokens}` };
}
