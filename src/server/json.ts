/** JSON that survives a reader which splits lines where Unicode allows it (Python's splitlines, httpx's aiter_lines). */

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
