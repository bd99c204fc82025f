/** Checks ids that clients give before they are used: they are repeated in headers, responses and logs. */
import type { Context, MiddlewareHandler } from 'hono';
import { z } from 'zod';
import { isAnonymous } from '../../router/conversations.ts';
import { HttpError } from './http-error.ts';

const MOST_CHARACTERS = 256;
const WANTED = `at most ${MOST_CHARACTERS} characters of printable ASCII`;
const PRINTABLE = /^[\x20-\x7e]*$/;

export const idText = z
  .string({ error: 'a string' })
  .max(MOST_CHARACTERS, { error: WANTED })
  .regex(PRINTABLE, { error: WANTED });

const WANTED_NAME =
  'an id other than anonymous-1, anonymous-2, …, which the router gives to conversations without an id';

/** A conversation's id. */
export const conversationIdText = idText.refine((id) => !isAnonymous(id), { error: WANTED_NAME });

const ID_HEADERS = ['X-Request-Id', 'X-Conversation-Id', 'X-Session-Id'] as const;

const isId = (text: string): boolean => text.length <= MOST_CHARACTERS && PRINTABLE.test(text);

/** Checks the id headers. Throws HttpError 400 that names the header. */
export function checkIdHeaders(c: Context): void {
  for (const name of ID_HEADERS) {
    const header = c.req.header(name);
    if (header !== undefined && !isId(header))
      throw new HttpError(400, `the header ${name} is not an id: wanted ${WANTED}`, name);
    if (header !== undefined && name !== 'X-Request-Id' && isAnonymous(header))
      throw new HttpError(400, `the header ${name} is '${header}': wanted ${WANTED_NAME}`, name);
  }
}

/** Refuses requests whose id headers are no ids. */
export const requireIds: MiddlewareHandler = async (c, next) => {
  checkIdHeaders(c);
  await next();
};

const generated = new WeakMap<Request, string>();

/** The client's request id, or a generated one. Returns the same id each time. */
export function requestIdOf(c: Context): string {
  const header = c.req.header('X-Request-Id');
  if (header && isId(header)) return header;
  let id = generated.get(c.req.raw);
  if (id === undefined) {
    id = crypto.randomUUID().replaceAll('-', '');
    generated.set(c.req.raw, id);
  }
  return id;
}

/** The conversation id from the headers, as vLLM's benchmark sends it; null: none. */
export const conversationIdOf = (c: Context): string | null =>
  c.req.header('X-Conversation-Id') || c.req.header('X-Session-Id') || null;
