/** Who may ask: a client's key and an operator's, compared in constant time, whatever was sent. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { HttpError } from './http-error.ts';

/** What monitors ask for, and tells nothing of anyone's text; vLLM leaves the same open. GET /metrics decides how much it tells. */
const OPEN_PATHS = new Set(['/health', '/version', '/metrics']);

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** What follows the scheme, whose case says nothing; '' is no key of anyone. Source: RFC 9110, 11.1. */
const credentials = (c: Context): string =>
  /^bearer +(.*)$/i.exec(c.req.header('Authorization') ?? '')?.[1] ?? '';

/** Whether the request carries this key. */
export function carries(c: Context, key: string): boolean {
  return timingSafeEqual(digest(credentials(c)), digest(key));
}

/** `keys`: any of them will do; `option`: the one to tell of. */
export function requireKey(keys: readonly string[], option: string): MiddlewareHandler {
  return async (c, next) => {
    if (OPEN_PATHS.has(c.req.path) || c.req.method === 'OPTIONS') return next();
    // All are compared: how long it takes says nothing of which.
    if (keys.filter((key) => carries(c, key)).length === 0) throw unauthorized(option);
    return next();
  };
}

const unauthorized = (option: string): HttpError =>
  new HttpError(401, `wanted the header Authorization: Bearer <the key of ${option}>`, null, {
    'WWW-Authenticate': 'Bearer',
  });
