/** Collects the worker side's reports until they are polled, and wakes waiters. Does not end holds or pulls itself. */
import type { ConnectorOutput } from '../engine/kv-connector.ts';
import type { Clock } from '../engine/types.ts';

type FailedPull = ConnectorOutput['failedRecving'][number];

const nothing = () => ({
  finishedSending: [] as string[],
  finishedRecving: [] as string[],
  failedRecving: [] as FailedPull[],
  changed: false,
});

const NOTHING: ConnectorOutput = nothing();

export class Reports {
  readonly #clock: Clock;
  readonly #nextDeadline: () => number | null;
  readonly #waiters = new Set<() => void>();
  #next = nothing();

  /** `nextDeadline`: the earliest deadline of a hold, ms on the engine's clock; null if there is none. */
  constructor(clock: Clock, nextDeadline: () => number | null) {
    this.#clock = clock;
    this.#nextDeadline = nextDeadline;
  }

  /** The request's hold has ended: no reader needs its blocks any more. */
  sent(requestId: string): void {
    this.#next.finishedSending.push(requestId);
    this.wake();
  }

  /** A pull ended. `failed`: which blocks did not arrive and why, or null. */
  received(requestId: string, failed: FailedPull | null): void {
    if (failed) this.#next.failedRecving.push(failed);
    this.#next.finishedRecving.push(requestId);
    this.wake();
  }

  /** Nothing ended, but the connector's answers may have changed. */
  changed(): void {
    this.#next.changed = true;
    this.wake();
  }

  /** Everything reported since the last call. */
  take(): ConnectorOutput {
    if (!this.#hasEnds()) return NOTHING;
    const taken = this.#next;
    this.#next = nothing();
    return taken;
  }

  /** Makes waiters check again, e.g. after a deadline has changed. */
  wake(): void {
    for (const waiter of this.#waiters) waiter();
  }

  /** Resolves when there is something to take, when a hold's deadline is due, or when the signal aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#hasSome()) {
      const wake = new AbortController();
      const onWake = () => wake.abort();
      this.#waiters.add(onWake);
      signal.addEventListener('abort', onWake);
      const deadline = this.#nextDeadline();
      if (deadline !== null) await this.#clock.sleep(deadline - this.#clock.now(), wake.signal);
      else await new Promise((resolve) => wake.signal.addEventListener('abort', resolve));
      this.#waiters.delete(onWake);
      signal.removeEventListener('abort', onWake);
    }
  }

  #hasSome(): boolean {
    const deadline = this.#nextDeadline();
    if (deadline !== null && deadline <= this.#clock.now()) return true;
    return this.#hasEnds();
  }

  #hasEnds(): boolean {
    const { changed, finishedSending, finishedRecving, failedRecving } = this.#next;
    return changed || finishedSending.length + finishedRecving.length + failedRecving.length > 0;
  }
}
