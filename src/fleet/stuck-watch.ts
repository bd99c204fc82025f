/** Detects stuck threads: watches a thread while it owes an answer, which its caller awaits without a time limit. */
import type { Clock } from '../engine/types.ts';
import { silence } from '../transport/deadlines.ts';

/**
 * A thread is stuck if it does not do in this time what takes no time. In milliseconds; many times what a thread
 * needs that shares its processor with a hundred others.
 */
export const STUCK_MS = 60_000;
export const STUCK = `its thread did not answer for ${STUCK_MS / 1000} s`;

export class StuckWatch {
  readonly #clock: Clock;
  /** Asks the thread for something that takes no time, and abandons it if it does not answer. */
  readonly #probe: () => Promise<void>;
  #owed = 0;
  #news = 0;
  #settled = new AbortController();

  constructor(clock: Clock, probe: () => Promise<void>) {
    this.#clock = clock;
    this.#probe = probe;
  }

  /** The thread owes something until settle(). While it is silent meanwhile, it is checked. */
  owe(): void {
    if (this.#owed++ > 0) return;
    this.#settled = new AbortController();
    void this.#check(this.#settled.signal);
  }

  settle(): void {
    if (--this.#owed === 0) this.#settled.abort();
  }

  /** Call when the thread has sent anything. */
  heard(): void {
    this.#news++;
  }

  /** Call when the thread is gone. */
  end(): void {
    this.#settled.abort();
  }

  async #check(settled: AbortSignal): Promise<void> {
    while (await silence(this.#clock, STUCK_MS / 2, () => this.#news, settled)) await this.#probe();
  }
}
