/**
 * One signal a request says that it is over: its client went away, its response could not be built or sent, or has been
 * sent. Whatever a request holds (a place in the queue, its answer under way) hangs on this signal, so that nothing else
 * has to know what that is.
 */
import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';
import { HttpError } from './http-error.ts';

export class ClientGone extends HttpError {
  constructor() {
    super(499, 'the client went away');
  }
}

/** What reading a body came to: it fails when its client leaves before it is whole, which is no fault to report. */
export async function unlessGone<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    throw error instanceof HttpError ? error : new ClientGone();
  }
}

const known = new WeakMap<Request, AbortController>();

const outgoingOf = (c: Context): ServerResponse | undefined =>
  ((c.env ?? {}) as { outgoing?: ServerResponse }).outgoing;

/** Whether the signal says as well that the client has taken its response: without a socket nobody knows. */
export const overWhenSent = (c: Context): boolean => outgoingOf(c) !== undefined;

/** Ask for it once, and after the body is read: Node's adapter reads the body far more slowly otherwise. */
export function overSignal(c: Context): AbortSignal {
  const { raw } = c.req;
  const over = new AbortController();
  known.set(raw, over);
  const end = () => over.abort(new ClientGone());
  raw.signal.addEventListener('abort', end, { once: true });
  if (raw.signal.aborted) end();
  // Without a socket there is none; with one, it closes however the response ended.
  outgoingOf(c)?.once('close', end);
  return over.signal;
}

/** The response that was being made will not be sent. */
export function responseFailed(c: Context, error: unknown): void {
  known.get(c.req.raw)?.abort(error);
}
