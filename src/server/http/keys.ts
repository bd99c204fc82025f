/** Checks the client's or the operator's key in the Authorization header, in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { HttpError } from './http-error.ts';

/** Paths for monitoring need no key, as in vLLM. They reveal nothing about prompts. GET /metrics limits what it shows itself. */
const OPEN_PATHS = new Set(['/health', '/ping', '/version', '/metrics']);

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The credentials after the Bearer scheme, which is case-insensitive; '' if there are none. Source: RFC 9110, 11.1. */
const credentials = (c: Context): string =>
  /^bearer +(.*)$/i.exec(c.req.header('Authorization') ?? '')?.[1] ?? '';

/** Whether the request carries this key. */
export function carries(c: Context, key: string): boolean {
  return timingSafeEqual(digest(credentials(c)), digest(key));
}

/** Middleware that accepts any of `keys`. `option`: named in the error message. Throws HttpError 401. */
export function requireKey(keys: readonly string[], option: string): MiddlewareHandler {
  return async (c, next) => {
    if (OPEN_PATHS.has(c.req.path) || c.req.method === 'OPTIONS') return next();
    // All keys are compared, so that the time does not show which one matched.
    if (keys.filter((key) => carries(c, key)).length === 0) throw unauthorized(option);
    return next();
  };
}

const unauthorized = (option: string): HttpError =>
  new HttpError(401, `no valid key: wanted the header Authorization: Bearer <the key of ${option}>`, null, {
    'WWW-Authenticate': 'Bearer',
  });
