/** GET /kv/events: an engine's KV events as server-sent events, whose ids are the batches' numbers, with replay. */
import type { Context, Hono } from 'hono';
import { type SSEStreamingApi, streamSSE } from 'hono/streaming';
import { HttpError } from './http-error.ts';
import { safeJson } from './json.ts';
import type { KvEventLog } from './kv-events.ts';

/** A comment so often keeps proxies from closing a quiet stream, and finds a client that is gone. */
const KEEP_ALIVE_MS = 15_000;

/**
 * Events of the stream: 'kv' is a batch. 'gap': what was asked for is not kept (or, from an earlier run of the server,
 * never was), and the stream goes on where it can. 'dropped': the reader was too slow, its place is gone, and the stream
 * ends; 'end': the server stops.
 */
export function mountKvEvents(app: Hono, log: KvEventLog): void {
  app.get('/kv/events', (c) => {
    const from = startOf(c, log);
    c.header('X-Accel-Buffering', 'no');
    return streamSSE(c, (stream) => follow(stream, log, from));
  });
}

/** `from` is the first number wanted; Last-Event-ID, of a reader that reconnects, the last it had. */
function startOf(c: Context, log: KvEventLog): number {
  const from = c.req.query('from');
  const last = c.req.header('Last-Event-ID');
  if (last !== undefined && /^\d{1,15}$/.test(last)) return Number(last) + 1;
  if (from === undefined) return log.next;
  if (!/^\d{1,15}$/.test(from)) {
    throw new HttpError(400, `from is '${from}': wanted the number of a batch, 0 or more`, 'from');
  }
  return Number(from);
}

async function follow(stream: SSEStreamingApi, log: KvEventLog, from: number): Promise<void> {
  const gone = new AbortController();
  stream.onAbort(() => gone.abort());
  let next = await begin(stream, log, from);
  while (!gone.signal.aborted) {
    if (next < log.first) {
      const text = { missed_from: next, first_available: log.first, reason: 'the reader was too slow' };
      await stream.writeSSE({ event: 'dropped', data: safeJson(text) });
      return;
    }
    const batch = log.read(next);
    // Waits for the reader to take it: the log, which is bounded, is all that grows meanwhile.
    if (batch !== null) await stream.writeSSE({ id: String(next++), event: 'kv', data: batch });
    else if (log.closed) {
      await stream.writeSSE({ event: 'end', data: safeJson({ next }) });
      return;
    } else if (!(await changed(log, gone.signal))) await stream.write(': still here\n\n');
  }
}

/** False when nothing came for as long as a connection may stay quiet. */
async function changed(log: KvEventLog, gone: AbortSignal): Promise<boolean> {
  const quiet = new AbortController();
  const stop = () => quiet.abort();
  const timer = setTimeout(stop, KEEP_ALIVE_MS);
  gone.addEventListener('abort', stop);
  const before = log.next;
  await log.changed(quiet.signal);
  clearTimeout(timer);
  gone.removeEventListener('abort', stop);
  return log.next > before || log.closed;
}

/** Says what cannot be replayed; returns where the stream begins. */
async function begin(stream: SSEStreamingApi, log: KvEventLog, from: number): Promise<number> {
  const { first, next } = log;
  if (from >= first && from <= next) return from;
  const start = from < first ? first : next;
  const text = { requested: from, first_available: first, next, continues_at: start };
  await stream.writeSSE({ event: 'gap', data: safeJson(text) });
  return start;
}
