/** Who may ask, when the server has a key: compared in constant time, whatever was sent. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { HttpError } from './http-error.ts';

/** What monitors ask for, and tells nothing of anyone's text; vLLM leaves the same open. */
const OPEN_PATHS = new Set(['/health', '/version', '/metrics']);

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

export function requireKey(apiKey: string): MiddlewareHandler {
  const expected = digest(`Bearer ${apiKey}`);
  return async (c, next) => {
    if (OPEN_PATHS.has(c.req.path) || c.req.method === 'OPTIONS') return next();
    if (!timingSafeEqual(digest(c.req.header('Authorization') ?? ''), expected)) {
      throw new HttpError(401, 'wanted the header Authorization: Bearer <the key of --api-key>', null, {
        'WWW-Authenticate': 'Bearer',
      });
    }
    return next();
  };
}
