/**
 * Sends a trace's turns at their arrival times, however busy the engines are. A follow-up turn is sent after the turn before
 * it has ended and its think time has passed.
 */

import { RequestError } from '../../errors.ts';
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import type { DueTurn, TraceFeed } from '../../workload/traces/feed.ts';
import type { TraceTokens } from '../../workload/traces/tokens.ts';
import { countError, type ServedRound } from '../multiturn/clients.ts';
import { measuredRequest } from '../multiturn/measured-request.ts';
import type { BenchTarget } from '../multiturn/target.ts';
import { ownSignal } from '../own-signal.ts';

export interface TraceServing {
  round: number;
  tokens: TraceTokens;
  signal: AbortSignal;
  /** Milliseconds. */
  now(): number;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  onRequest(request: MeasuredRequest): void;
  onFailure?(message: string): void;
}

/** Counts failed requests and continues. Rejects with the signal's reason, or with the error that ended the benchmark. */
export async function serveTrace(
  target: BenchTarget,
  feed: TraceFeed,
  { round, tokens, signal, now, sleep, onRequest, onFailure }: TraceServing,
): Promise<ServedRound> {
  const served: ServedRound = { requests: [], errors: new Map(), runtimeMs: 0 };
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const underWay = new Set<Promise<void>>();
  /** Called when a turn has ended or failed: a follow-up turn may be due. */
  let news: () => void = () => {};
  const begunMs = now();
  const sinceBegun = (): number => now() - begunMs;

  async function serve({ turn }: DueTurn): Promise<void> {
    const { index, conversationId, inputTokens, outputTokens } = turn;
    const startMs = sinceBegun();
    const request = {
      conversationId,
      turn: turn.turn,
      prompt: { kind: 'tokens', tokenIds: tokens.of(turn.prompt) },
      forced: tokens.of(turn.answer),
      minTokens: outputTokens,
      maxTokens: outputTokens,
      auditor: null,
      signal: ownSignal(either),
    } as const;
    try {
      const answered = await target.send(request);
      const sent = { round, conversationId, turn: turn.turn, client: 0, startMs, inputTokens };
      const measured = measuredRequest(sent, answered);
      served.requests.push(measured);
      onRequest(measured);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      countError(served.errors, error.message);
      onFailure?.(error.message);
    }
    feed.ended(index, sinceBegun());
    served.runtimeMs = sinceBegun();
  }

  try {
    for (;;) {
      await feed.fill();
      either.throwIfAborted();
      if (feed.finished) break;
      const waitMs = feed.nextMs === null ? null : feed.nextMs - sinceBegun();
      if (waitMs === null || waitMs > 0) {
        const woken = new AbortController();
        const until = AbortSignal.any([either, woken.signal]);
        const newsArrived = new Promise<void>((resolve) => {
          news = resolve;
          either.addEventListener('abort', () => resolve(), { once: true, signal: woken.signal });
        });
        await (waitMs === null ? newsArrived : Promise.race([newsArrived, sleep(waitMs, until)]));
        woken.abort();
        continue;
      }
      const serving = serve(feed.next()!);
      underWay.add(serving);
      serving
        .catch((error: unknown) => failed.abort(error))
        .finally(() => {
          underWay.delete(serving);
          news();
        });
    }
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(underWay);
    throw signal.aborted ? signal.reason : failed.signal.reason;
  }
  return served;
}
