/** Whether a thread that owes something is stuck: whoever waits for an answer waits for as long as it takes, and would for ever. */
import type { Clock } from '../engine/types.ts';
import { silence } from '../transport/deadlines.ts';

/** A thread that has not done by then what takes no time is stuck: many times what one takes that shares its processor with a hundred. */
export const STUCK_MS = 60_000;
export const STUCK = `its thread did not answer for ${STUCK_MS / 1000} s`;

export class StuckWatch {
  readonly #clock: Clock;
  /** Asks the thread for what takes no time, and gives it up if that does not come. */
  readonly #ask: () => Promise<void>;
  #owed = 0;
  #news = 0;
  #settled = new AbortController();

  constructor(clock: Clock, ask: () => Promise<void>) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** Something is asked of the thread, which `settle` ends. While it says nothing at all meanwhile, it is looked after. */
  owe(): void {
    if (this.#owed++ > 0) return;
    this.#settled = new AbortController();
    void this.#look(this.#settled.signal);
  }

  settle(): void {
    if (--this.#owed === 0) this.#settled.abort();
  }

  /** The thread said something. */
  heard(): void {
    this.#news++;
  }

  /** It is gone: nothing more comes of what it owes. */
  end(): void {
    this.#settled.abort();
  }

  async #look(settled: AbortSignal): Promise<void> {
    while (await silence(this.#clock, STUCK_MS / 2, () => this.#news, settled)) await this.#ask();
  }
}
