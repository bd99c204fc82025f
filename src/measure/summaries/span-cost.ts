/**
 * The cost of recording spans. Comparing two runs cannot resolve 1%, because their times differ by more. Instead the same
 * number of spans is created, sent in as many messages and received, and that is timed.
 */

import type { SpanRecorderReport } from '../schemas/report.ts';
import { onHost, type RawSpan, type Span } from '../spans/spans.ts';

export interface SpanCounts {
  spans: number;
  /** Messages that carried them between threads. */
  messages: number;
}

export const countsSince = (before: SpanCounts, after: SpanCounts): SpanCounts => ({
  spans: after.spans - before.spans,
  messages: after.messages - before.messages,
});

/** Timed messages, after a few for warm-up. */
const TIMED_MESSAGES = 40;
const WARM_UP_MESSAGES = 20;

/**
 * The cost of that many spans, and its share of `wallMs`. An upper bound: both ends of a message run in this thread, so
 * waiting for the event loop counts too. `now` returns milliseconds. Takes a few milliseconds.
 */
export async function spanCost(
  counts: SpanCounts,
  wallMs: number,
  now: () => number,
): Promise<SpanRecorderReport> {
  const { spans, messages } = counts;
  if (spans === 0 || messages === 0) return { spans, messages, ms: 0, share: 0 };
  const perMessage = Math.max(1, Math.round(spans / messages));
  const { port1, port2 } = new MessageChannel();
  const arrived = new Map<string, Span[]>();
  const turn = { turnId: 'conversation#12.1', side: 'decode' } as const;
  let received: () => void = () => {};
  port2.onmessage = (event) => {
    for (const span of event.data as RawSpan[]) arrived.set(span.requestId!, [{ ...span, turns: [turn] }]);
    received();
  };
  const send = async (): Promise<void> => {
    const made: RawSpan[] = [];
    for (let i = 0; i < perMessage; i++) made.push(typicalSpan(i, now));
    const done = new Promise<void>((resolve) => {
      received = resolve;
    });
    port1.postMessage(made);
    await done;
  };
  for (let i = 0; i < WARM_UP_MESSAGES; i++) await send();
  const begun = now();
  for (let i = 0; i < TIMED_MESSAGES; i++) await send();
  const ms = ((now() - begun) / TIMED_MESSAGES) * messages;
  port1.close();
  return { spans, messages, ms, share: wallMs > 0 ? ms / wallMs : 0 };
}

function typicalSpan(i: number, now: () => number): RawSpan {
  const startMs = now();
  const requestIds = [`conversation#12.${i % 4}-d`];
  const args = { step: i, rows: 1, submits: 1 };
  return {
    name: 'sampling',
    ...onHost('decode-0'),
    startMs,
    endMs: now(),
    clock: 'host',
    requestId: `r${i % 8}`,
    requestIds,
    args,
  };
}
