/** A trace's turns asked for when it says; those that go on wait for the last token before them and a think time. */
import { TraceFeed } from '../workload/traces/feed.ts';
import type { TraceTokens } from '../workload/traces/tokens.ts';
import type { TraceTurn } from '../workload/traces/types.ts';
import type { Answers } from './answers.ts';
import type { Collector } from './collector.ts';
import { exactly, type Served, serveTurn } from './load.ts';

export interface TraceLoad {
  kind: 'trace';
  /** As often as it is served. */
  open: () => Promise<AsyncIterable<TraceTurn>>;
  tokens: TraceTokens;
}

/** A fleet whose time stands still while something outside of it is waited for. */
export interface TracedFleet extends Served {
  outside<T>(work: Promise<T>): Promise<T>;
}

/** Resolves when all was answered. What D generates is what later prompts hold. */
export async function serveTrace(
  fleet: TracedFleet,
  { open, tokens }: TraceLoad,
  answers: Answers,
  collector: Collector,
): Promise<void> {
  const { clock } = fleet;
  const feed = new TraceFeed(await fleet.outside(open()));
  let failure: unknown = null;
  /** Called when a turn ended: another may be due. */
  let wake = (): void => {};

  async function serve({ index, conversationId, outputTokens, prompt, answer }: TraceTurn): Promise<void> {
    const promptTokenIds = tokens.of(prompt);
    answers.force(promptTokenIds, tokens.of(answer));
    await serveTurn(fleet, { conversationId, promptTokenIds, sampling: exactly(outputTokens) }, collector);
    collector.conversationEnds();
    feed.ended(index, clock.now());
    wake();
  }

  while (!failure) {
    if (feed.wantsFill) await fleet.outside(feed.fill());
    if (feed.over) return;
    const waitMs = feed.nextMs === null ? null : feed.nextMs - clock.now();
    if (waitMs !== null && waitMs <= 0) {
      collector.conversationComes(clock.now());
      serve(feed.next()!.turn).catch((error: unknown) => {
        failure ??= error;
        wake();
      });
      continue;
    }
    const news = new AbortController();
    wake = () => news.abort();
    if (waitMs !== null) await clock.sleep(waitMs, news.signal);
    else await new Promise((resolve) => news.signal.addEventListener('abort', resolve));
  }
  throw failure;
}
