/** A clock that jumps and stands still when told to, over one that does neither. Timers go on as they were set. */
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

  /** A time of this clock's on the one below, as long as nothing else happens to it; to the bit where nothing did. */
  inner(atMs: number): number {
    const now = this.now();
    const belowMs = this.#clock.now();
    return now === belowMs ? atMs : belowMs + (atMs - now);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(ms, signal);
  }

  /** Milliseconds to add from now on, or for which to stand still: what was missed is caught up then. */
  readonly move = (change: { jumpMs: number } | { stallMs: number }): void => {
    if ('jumpMs' in change) this.#offsetMs += change.jumpMs;
    else this.#stalled = { atMs: this.now(), untilMs: this.#clock.now() + change.stallMs };
  };
}
