/** A clock that can be made to jump and to stand still, on top of a normal one. Timers are not affected. */
import type { Clock } from '../engine/types.ts';

export class FaultyClock implements Clock {
  readonly #clock: Clock;
  #offsetMs = 0;
  #stalled: { atMs: number; untilMs: number } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    if (this.#stalled && this.#clock.now() >= this.#stalled.untilMs) this.#stalled = null;
    return this.#stalled?.atMs ?? this.#clock.now() + this.#offsetMs;
  }

  /**
   * Converts a time of this clock to the underlying one, assuming no further jumps. Exact if nothing has happened
   * yet.
   */
  inner(atMs: number): number {
    const now = this.now();
    const belowMs = this.#clock.now();
    return now === belowMs ? atMs : belowMs + (atMs - now);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(ms, signal);
  }

  /**
   * jumpMs: milliseconds to add from now on. stallMs: milliseconds to stand still, after which the clock catches up.
   */
  readonly move = (change: { jumpMs: number } | { stallMs: number }): void => {
    if ('jumpMs' in change) this.#offsetMs += change.jumpMs;
    else this.#stalled = { atMs: this.now(), untilMs: this.#clock.now() + change.stallMs };
  };
}
