/** GET /kv/events: an engine's KV events as server-sent events with replay. An event's id is its batch's sequence number. */
import type { Context, Hono } from 'hono';
import { type SSEStreamingApi, streamSSE } from 'hono/streaming';
import { HttpError } from '../http/http-error.ts';
import { safeJson } from '../http/json.ts';
import type { KvEventLog } from './kv-events.ts';

/** Interval of comments that keep proxies from closing a quiet stream, and reveal a disconnected client. */
const KEEP_ALIVE_MS = 15_000;

/**
 * Events of the stream:
 * - 'kv': a batch.
 * - 'gap': the requested batch is no longer kept, or does not exist yet (its number may come from an earlier run of the
 *   server). The stream continues at continues_at.
 * - 'dropped': the reader was too slow and its next batch is no longer kept. The stream ends.
 * - 'end': the server is stopping. The stream ends.
 */
export function mountKvEvents(app: Hono, log: KvEventLog): void {
  app.get('/kv/events', (c) => {
    const from = startOf(c, log);
    c.header('X-Accel-Buffering', 'no');
    // Nobody reads the body of a response to HEAD: following the log for it would never end.
    if (c.req.method === 'HEAD') return c.body(null, 200, { 'Content-Type': 'text/event-stream' });
    return streamSSE(c, (stream) => follow(stream, log, from));
  });
}

/**
 * Number of the first batch to send: one after Last-Event-ID, which reconnecting readers send; else `from`; else the next
 * batch. Throws HttpError 400.
 */
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
  const disconnected = new AbortController();
  stream.onAbort(() => disconnected.abort());
  let next = await begin(stream, log, from);
  while (!disconnected.signal.aborted) {
    if (next < log.first) {
      const text = { missed_from: next, first_available: log.first, reason: 'the reader was too slow' };
      await stream.writeSSE({ event: 'dropped', data: safeJson(text) });
      return;
    }
    const batch = log.read(next);
    // Waits until the reader takes it. Only the log grows meanwhile, and it is bounded.
    if (batch !== null) await stream.writeSSE({ id: String(next++), event: 'kv', data: batch });
    else if (log.closed) {
      await stream.writeSSE({ event: 'end', data: safeJson({ next }) });
      return;
    } else if (!(await changed(log, disconnected.signal))) await stream.write(': still here\n\n');
  }
}

/** False if nothing changed for KEEP_ALIVE_MS. */
async function changed(log: KvEventLog, disconnected: AbortSignal): Promise<boolean> {
  const quiet = new AbortController();
  const stop = () => quiet.abort();
  const timer = setTimeout(stop, KEEP_ALIVE_MS);
  disconnected.addEventListener('abort', stop);
  const before = log.next;
  await log.changed(quiet.signal);
  clearTimeout(timer);
  disconnected.removeEventListener('abort', stop);
  return log.next > before || log.closed;
}

/** Sends 'gap' if `from` cannot be served. Returns the number of the stream's first batch. */
async function begin(stream: SSEStreamingApi, log: KvEventLog, from: number): Promise<number> {
  const { first, next } = log;
  if (from >= first && from <= next) return from;
  const start = from < first ? first : next;
  const text = { requested: from, first_available: first, next, continues_at: start };
  await stream.writeSSE({ event: 'gap', data: safeJson(text) });
  return start;
}
