/**
 * GET /kv/events: an engine's KV events as server-sent events with replay. An event's id is its log's run and its batch's
 * sequence number: '3f9c0a1b-17'.
 */
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
 * - 'gap': the requested batch is no longer kept, does not exist yet, or is of an earlier run. The stream continues at
 *   continues_at.
 * - 'dropped': the reader was too slow and its next batch is no longer kept. The stream ends.
 * - 'end': the server is stopping, or the engine leaves the fleet. The stream ends.
 */
export function mountKvEvents(app: Hono, log: KvEventLog): void {
  app.get('/kv/events', (c) => {
    const start = startOf(c, log);
    c.header('X-Accel-Buffering', 'no');
    // Nobody reads the body of a response to HEAD: following the log for it would never end.
    if (c.req.method === 'HEAD') return c.body(null, 200, { 'Content-Type': 'text/event-stream' });
    const response = streamSSE(c, (stream) => follow(stream, log, start));
    // Node frames the body as the client's HTTP version needs it.
    for (const name of ['Transfer-Encoding', 'Connection']) response.headers.delete(name);
    return response;
  });
}

interface Start {
  /** Number of the batch after the reader's last one. */
  from: number;
  /** Whether that number is of this log. */
  known: boolean;
}

/**
 * Where to begin: one after Last-Event-ID, which reconnecting readers send; else at `from`, a batch's number or id; else at
 * the next batch. Throws HttpError 400.
 */
function startOf(c: Context, log: KvEventLog): Start {
  const last = /^(\w{1,64}-)?(\d{1,15})$/.exec(c.req.header('Last-Event-ID') ?? '');
  // Every id has its run: a plain number is not one of this log.
  if (last) return { from: Number(last[2]) + 1, known: last[1] === `${log.run}-` };
  const from = c.req.query('from');
  if (from === undefined) return { from: log.next, known: true };
  const wanted = /^(?:(\w{1,64})-)?(\d{1,15})$/.exec(from);
  if (!wanted) {
    throw new HttpError(
      400,
      `from is '${from}': wanted the number of a batch, 0 or more, or an event's id`,
      'from',
    );
  }
  return { from: Number(wanted[2]), known: wanted[1] === undefined || wanted[1] === log.run };
}

async function follow(stream: SSEStreamingApi, log: KvEventLog, start: Start): Promise<void> {
  const disconnected = new AbortController();
  stream.onAbort(() => disconnected.abort());
  let next = await begin(stream, log, start);
  while (!disconnected.signal.aborted) {
    if (next < log.first) {
      const text = { missed_from: next, first_available: log.first, reason: 'the reader was too slow' };
      await stream.writeSSE({ event: 'dropped', data: safeJson(text) });
      return;
    }
    const batch = log.read(next);
    // Waits until the reader takes it. Only the log grows meanwhile, and it is bounded.
    if (batch !== null) await stream.writeSSE({ id: `${log.run}-${next++}`, event: 'kv', data: batch });
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

/** Sends 'gap' if the start cannot be served. Returns the number of the stream's first batch. */
async function begin(stream: SSEStreamingApi, log: KvEventLog, { from, known }: Start): Promise<number> {
  const { first, next } = log;
  if (known && from >= first && from <= next) return from;
  // Of another run, all that is kept is new to the reader.
  const start = !known || from < first ? first : next;
  const text = { requested: from, first_available: first, next, continues_at: start };
  await stream.writeSSE({ event: 'gap', data: safeJson(text) });
  return start;
}
