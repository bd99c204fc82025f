/**
 * Serves a trace's turns on a simulated fleet at their times. A later turn waits for the turn before it and a think
 * time.
 */
import type { TokenIds } from '../../config/token-ids.ts';
import type { TraceFeed } from '../../workload/traces/feed.ts';
import type { Segment, TraceTurn } from '../../workload/traces/types.ts';
import type { VirtualClock } from '../clock.ts';
import type { Collector } from '../results/collector.ts';
import { exactly, type Served, serveTurn } from './load.ts';

/** When each turn would arrive if no answer took any time, milliseconds. */
export function soonestMs(turns: readonly TraceTurn[]): number[] {
  const byIndex = new Map<number, number>();
  return turns.map(({ index, arrival }) => {
    const ms = arrival.kind === 'at' ? arrival.ms : (byIndex.get(arrival.index) ?? 0) + arrival.thinkMs;
    byIndex.set(index, ms);
    return ms;
  });
}

/** When the last turn would arrive if no answer took any time, milliseconds: until then the load is up. */
export const lastComesMs = (turns: readonly TraceTurn[]): number =>
  soonestMs(turns).reduce((last, ms) => Math.max(last, ms), 0);

/** Resolves when the last answer has ended; failed requests are counted and skipped. Call inside run(). */
export async function serveTurns(
  fleet: Served & { clock: Pick<VirtualClock, 'now' | 'after' | 'cancel'> },
  feed: TraceFeed,
  tokensOf: (segments: readonly Segment[]) => TokenIds,
  collector: Collector,
): Promise<void> {
  const { clock } = fleet;
  const begunMs = clock.now();
  let failure: unknown = null;
  /** When the next known turn is due, ms since the beginning; `wake` ends the wait for it. */
  let untilMs = Number.POSITIVE_INFINITY;
  let wake = (): void => {};

  /** Ends the wait if a turn is due sooner, or if none is left. */
  function ended(): void {
    const dueMs = failure || feed.finished ? 0 : (feed.nextMs ?? Number.POSITIVE_INFINITY);
    if (dueMs < untilMs) wake();
  }

  /** Without an AbortSignal, which costs more than everything else that a turn does here. */
  function due(waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = Number.isFinite(waitMs) ? clock.after(waitMs, resolve) : null;
      wake = () => {
        if (timer) clock.cancel(timer);
        resolve();
      };
    });
  }

  async function serve({ index, conversationId, prompt, answer, outputTokens }: TraceTurn): Promise<void> {
    const sampling = Object.assign(exactly(outputTokens), { forcedTokenIds: tokensOf(answer) });
    await serveTurn(fleet, { conversationId, promptTokenIds: tokensOf(prompt), sampling }, collector);
    feed.ended(index, clock.now() - begunMs);
  }

  while (!failure) {
    if (feed.wantsFill) await feed.fill();
    if (feed.finished) break;
    const waitMs = feed.nextMs === null ? Number.POSITIVE_INFINITY : feed.nextMs - (clock.now() - begunMs);
    if (waitMs <= 0) {
      void serve(feed.next()!.turn)
        .catch((error: unknown) => {
          failure ??= error;
        })
        .finally(ended);
      continue;
    }
    untilMs = feed.nextMs ?? Number.POSITIVE_INFINITY;
    await due(waitMs);
  }
  if (failure) throw failure;
}
