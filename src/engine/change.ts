/** What wakes an engine that has nothing to do now: a transfer or a read that ends, a hold or a heartbeat that is due. */
import type { KvConnector } from './kv-connector.ts';
import type { RequestQueues } from './request-queues.ts';
import type { Clock } from './types.ts';

/** How soon a stalled engine looks again: a read that pinned a hold may have ended without a report. */
const STALL_RETRY_MS = 1000;

/** Resolves at the first of these, or when the signal aborts; without a connector only then. */
export async function changeOrSignal(
  { connector, clock }: { connector: KvConnector | null; clock: Clock },
  queues: RequestQueues,
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const aborted = new Promise<void>((resolve) => {
    if (either.aborted) resolve();
    else either.addEventListener('abort', () => resolve(), { once: true });
  });
  const waits: Promise<void>[] = [aborted];
  if (connector) {
    waits.push(connector.worker.waitForChange(either));
    const due = connector.scheduler.metaDueMs();
    if (due !== null) waits.push(clock.sleep(Math.max(0, due - clock.now()), either));
    if (queues.stalled) {
      const retry = () => {
        queues.stalled = false;
      };
      waits.push(clock.sleep(STALL_RETRY_MS, either).then(retry));
    }
  }
  await Promise.race(waits);
  stop.abort();
}
