/**
 * Reads and writes JSON bodies. Output has no Unicode line separators, because some clients split lines at them (Python's
 * splitlines, httpx's aiter_lines).
 */
import type { Context } from 'hono';
import { HttpError } from './http-error.ts';
import { unlessGone } from './request-signal.ts';

/** NEL, line separator, paragraph separator: JSON.stringify does not escape them. */
const lineBreaks = /[\u0085\u2028\u2029]/g;

export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    lineBreaks,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export function jsonResponse(
  value: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const text = safeJson(value);
  const type = { 'Content-Type': 'application/json', ...headers };
  if (text.length <= SLICE) return new Response(text, { status, headers: type });
  const bytes = new TextEncoder().encode(text);
  return new Response(sliced(bytes), { status, headers: { ...type, 'Content-Length': `${bytes.length}` } });
}

/** Bytes. Longer bodies are sent in slices, so that slow-readers.ts can see whether the client reads. */
const SLICE = 64 * 1024;

function sliced(bytes: Uint8Array): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.subarray(at, at + SLICE));
      else controller.close();
      at += SLICE;
    },
  });
}

/** Most levels of nested lists and objects. No valid request needs half of them, and recursive code can handle many more. */
const MOST_LEVELS = 64;

/** Checks the nesting before the body is parsed. Throws HttpError 400. */
function checkLevels(text: string): void {
  let levels = 0;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '[' || character === '{') levels++;
    else if (character === ']' || character === '}') levels--;
    else if (character === '"') i = endOfString(text, i);
    if (levels > MOST_LEVELS)
      throw new HttpError(
        400,
        `the body has more than ${MOST_LEVELS} levels of nested lists and objects: flatten it`,
      );
  }
}

/** Index of the closing quote of the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Requires application/json, as vLLM does. A page of another origin cannot send this type without a CORS preflight. Throws
 * HttpError 415.
 */
function checkType(c: Context): void {
  const type = c.req.header('Content-Type') ?? '';
  if (type.split(';')[0]!.trim().toLowerCase() === 'application/json') return;
  throw new HttpError(
    415,
    `the body's Content-Type is ${type ? `'${type.slice(0, 100)}'` : 'missing'}: wanted the header Content-Type: application/json (curl -H 'Content-Type: application/json'; curl -d alone sends a form)`,
  );
}

/** Throws HttpError 415. */
function checkEncoding(c: Context): void {
  const encoding = c.req.header('Content-Encoding') ?? 'identity';
  if (encoding.trim().toLowerCase() === 'identity') return;
  throw new HttpError(
    415,
    `the body's Content-Encoding is '${encoding.slice(0, 100)}': wanted a body that is not compressed; send it as it is`,
    null,
    { 'Accept-Encoding': 'identity' },
  );
}

/** Parses the request's body. Throws HttpError 400 or 415, or ClientGone. */
export async function bodyOf(c: Context): Promise<unknown> {
  checkType(c);
  checkEncoding(c);
  const text = await unlessGone(c.req.text());
  checkLevels(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new HttpError(400, `the body is not JSON: ${(error as Error).message}`);
  }
}
