/**
 * One signal per request that aborts when the request is over: its client disconnected, its response could not be built or
 * sent, or was sent. Everything that a request holds (its place in the queue, its running answers) is released by this signal.
 */
import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';
import { HttpError } from './http-error.ts';

export class ClientGone extends HttpError {
  constructor() {
    super(499, 'the client disconnected');
  }
}

/** Reads a body. Rejects with ClientGone, which is no server error, if the client disconnects before the body is complete. */
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

/** Whether the signal also aborts when the response was sent. Without a socket (in tests) that is not known. */
export const endsWhenSent = (c: Context): boolean => outgoingOf(c) !== undefined;

/** Call once per request, and after reading the body: otherwise Node's adapter reads the body far more slowly. */
export function requestSignal(c: Context): AbortSignal {
  const { raw } = c.req;
  const requestEnded = new AbortController();
  known.set(raw, requestEnded);
  const end = () => requestEnded.abort(new ClientGone());
  raw.signal.addEventListener('abort', end, { once: true });
  if (raw.signal.aborted) end();
  // With a socket, 'close' comes however the response ended.
  outgoingOf(c)?.once('close', end);
  return requestEnded.signal;
}

/** Aborts the request's signal: its response will not be sent. */
export function responseFailed(c: Context, error: unknown): void {
  known.get(c.req.raw)?.abort(error);
}
