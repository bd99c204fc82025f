/** JSON in and out; what goes out survives a reader which splits lines where Unicode allows it (Python's splitlines, httpx's aiter_lines). */
import type { Context } from 'hono';
import { HttpError } from './http-error.ts';
import { unlessGone } from './over.ts';

/** NEL, line separator, paragraph separator: the ones that JSON.stringify leaves as they are. */
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

/** Bytes: what is longer goes out in slices, by which it shows whether a client reads. */
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

/** Levels of lists and objects in each other. No request needs half of them; what goes down by recursion has room for many more. */
const MOST_LEVELS = 64;

/** Throws HttpError 400, before anyone goes down into it. */
function checkLevels(text: string): void {
  let levels = 0;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '[' || character === '{') levels++;
    else if (character === ']' || character === '}') levels--;
    else if (character === '"') i = endOfString(text, i);
    if (levels > MOST_LEVELS)
      throw new HttpError(400, `the body has more than ${MOST_LEVELS} levels of lists and objects`);
  }
}

/** Where the string ends that begins at `start`. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}

/** As vLLM wants it; and a page of another origin cannot say it without asking first. Throws HttpError 415. */
function checkType(c: Context): void {
  const type = c.req.header('Content-Type') ?? '';
  if (type.split(';')[0]!.trim().toLowerCase() === 'application/json') return;
  throw new HttpError(
    415,
    `the body is ${type ? `'${type.slice(0, 100)}'` : 'of no type'}: wanted the header Content-Type: application/json (curl -H 'Content-Type: application/json'; its -d alone says it is a form)`,
  );
}

/** Throws HttpError 400 or 415. */
export async function bodyOf(c: Context): Promise<unknown> {
  checkType(c);
  const text = await unlessGone(c.req.text());
  checkLevels(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new HttpError(400, `the body is no JSON: ${(error as Error).message}`);
  }
}
