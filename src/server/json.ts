/** JSON in and out; what goes out survives a reader which splits lines where Unicode allows it (Python's splitlines, httpx's aiter_lines). */
import type { Context } from 'hono';
import { HttpError } from './http-error.ts';

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
  return new Response(safeJson(value), {
    status,
    headers: { 'Content-Type': 'application/json', ...headers },
  });
}

/** Throws HttpError 400. */
export async function bodyOf(c: Context): Promise<unknown> {
  const text = await c.req.text();
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new HttpError(400, `the body is no JSON: ${(error as Error).message}`);
  }
}
