/** How many requests a port takes: those that its engine serves at once, and so many that wait. The next one is told to come back. */
import { comeBack } from './http-error.ts';

export class Admission {
  readonly #limit: number;
  /** How many answers each asks for. */
  readonly #inside = new Map<AbortController, number>();
  #closing = false;
  #onIdle: (() => void) | null = null;

  /** `served` at once and `waiting` beside them, at most. */
  constructor(served: number, waiting: number) {
    this.#limit = served + waiting;
  }

  /** Answers at once. */
  get most(): number {
    return this.#limit;
  }

  /**
   * Call what it returns when the request ended; calling it again does nothing. `abort` ends the request when the server
   * stops; it asks for so many `answers`. Throws HttpError 503.
   */
  enter(abort: AbortController, answers = 1): () => void {
    let inFlight = 0;
    for (const others of this.#inside.values()) inFlight += others;
    if (this.#closing) throw comeBack('the server is stopping');
    if (inFlight + answers > this.#limit)
      throw comeBack(`${inFlight} requests are served or waiting: come back in a moment`);
    this.#inside.set(abort, answers);
    return () => {
      this.#inside.delete(abort);
      if (this.#inside.size === 0) this.#onIdle?.();
    };
  }

  /** No more requests; resolves when the last one ended. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.#inside.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Ends what is left. */
  abortAll(): void {
    for (const abort of this.#inside.keys()) abort.abort(comeBack('the server is stopping'));
  }
}
