/** The time that a benchmark may take. */
import { timerMs } from '../../platform/clock.ts';

/** Milliseconds reserved for closing the engines and writing the report. */
const CLOSING_MS = 4000;

export class Budget {
  readonly #deadlineMs: number | null;
  readonly #now: () => number;
  readonly #spent = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | null;

  /** `deadlineMs`: when it ends, by `now`; null: without limit. Call close() when it no longer matters. */
  constructor(deadlineMs: number | null, now: () => number) {
    this.#deadlineMs = deadlineMs;
    this.#now = now;
    this.#timer =
      deadlineMs === null
        ? null
        : setTimeout(
            () => this.#spent.abort(new Error('the budget is used up')),
            timerMs(Math.max(0, this.leftMs())),
          );
  }

  get isLimited(): boolean {
    return this.#deadlineMs !== null;
  }

  /** Below 0 once it is used up; Infinity without limit. */
  leftMs(): number {
    return this.#deadlineMs === null ? Number.POSITIVE_INFINITY : this.#deadlineMs - CLOSING_MS - this.#now();
  }

  /** Aborts when it is used up. */
  get spent(): AbortSignal {
    return this.#spent.signal;
  }

  close(): void {
    if (this.#timer) clearTimeout(this.#timer);
  }
}
