/** Limits the answers in progress on a port: those its engine serves at once plus a bounded queue. Beyond that, 503. */
import { comeBack } from './http-error.ts';

export class Admission {
  readonly #limit: number;
  /** Admitted requests, with the number of answers each asks for. */
  readonly #inside = new Map<AbortController, number>();
  /** What later requests are told; null: it is open. */
  #closed: string | null = null;
  #onIdle: (() => void) | null = null;

  /** At most `served` answers run at once, and at most `waiting` more are queued. */
  constructor(served: number, waiting: number) {
    this.#limit = served + waiting;
  }

  /** Most answers in progress, running and queued. */
  get most(): number {
    return this.#limit;
  }

  /**
   * Admits a request that asks for this many `answers`. Returns a function to call when the request has ended; further calls
   * do nothing. The port aborts `abort` when it closes. Throws HttpError 503 when the port is full or closing.
   */
  enter(abort: AbortController, answers = 1): () => void {
    let inFlight = 0;
    for (const others of this.#inside.values()) inFlight += others;
    if (this.#closed !== null) throw comeBack(this.#closed);
    if (inFlight + answers > this.#limit)
      throw comeBack(`${inFlight} requests are running or waiting: retry in a moment`);
    this.#inside.set(abort, answers);
    return () => {
      this.#inside.delete(abort);
      if (this.#inside.size === 0) this.#onIdle?.();
    };
  }

  /** Admits no more requests, which are told `why`. Resolves when the last one has ended. */
  async close(why: string): Promise<void> {
    this.#closed = why;
    if (this.#inside.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Aborts the remaining requests, which are told `why`. */
  abortAll(why: string): void {
    for (const abort of this.#inside.keys()) abort.abort(comeBack(why));
  }
}
