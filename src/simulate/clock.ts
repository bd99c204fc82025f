/**
 * Time that passes only from one event to the next: a Clock for all that policy is, and the queue of what is to come. Events
 * of one moment happen by their ranks, the lowest first, and else in the order in which they were asked for, so that a run
 * repeats to the bit.
 */
import { Heap } from '../engine/heap.ts';
import type { Clock } from '../engine/types.ts';
import { ConfigError, invariant } from '../errors.ts';

/** Something that will happen, unless it is cancelled. */
export interface Timer {
  atMs: number;
  /** Among events of a moment. */
  rank: number;
  /** Asked for as the so-manieth. */
  order: number;
  /** null: it happened, or was cancelled. */
  run: (() => void) | null;
  /** In the queue, while it is to come. */
  place: number;
  /** Of somebody who looks in now and then: alone, it is nothing to come. */
  background?: true;
}

/** After all that has a rank of its own. */
const LAST = Number.POSITIVE_INFINITY;

/** Some 300 years. Much later a number holds no two times that are a step apart, and time stands still. */
const MOST_MS = 1e13;

export class VirtualClock implements Clock {
  readonly #timers = new Heap<Timer>(isBefore, (timer, place) => {
    timer.place = place;
  });
  #nowMs = 0;
  #rank = LAST;
  #asked = 0;

  now(): number {
    return this.#nowMs;
  }

  /** Of what happens now: of this moment, all with lower ranks that was asked for before has happened. */
  get rank(): number {
    return this.#rank;
  }

  /** Not before now. */
  at(atMs: number, run: () => void, rank = LAST): Timer {
    const timer: Timer = { atMs: Math.max(atMs, this.#nowMs), rank, order: this.#asked++, run, place: 0 };
    this.#timers.push(timer);
    return timer;
  }

  /** It will not happen. Most timers of engines are cancelled: left in the queue, they would be nearly all of it. */
  cancel(timer: Timer): void {
    if (!timer.run) return;
    timer.run = null;
    this.#timers.removeAt(timer.place);
  }

  after(ms: number, run: () => void): Timer {
    return this.at(this.#nowMs + ms, run);
  }

  sleep(ms: number, signal?: AbortSignal, background = false): Promise<void> {
    if (ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        this.cancel(timer);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const timer = this.after(ms, wake);
      if (background) timer.background = true;
      signal?.addEventListener('abort', wake);
    });
  }

  /** The same time for whoever looks in now and then, for which no time passes when nothing else is to come. */
  background(): Clock {
    return {
      now: () => this.#nowMs,
      sleep: (ms, signal) => this.sleep(ms, signal, true),
    };
  }

  /** Moves to the next event and lets it happen; false when there is none. Throws ConfigError where it is centuries away. */
  next(): boolean {
    const timer = this.#timers.first;
    if (!timer) return false;
    const { run, atMs, rank, background } = timer;
    if (background && this.#timers.items.every((other) => other.background)) return false;
    invariant(atMs >= this.#nowMs, () => `the clock would go back from ${this.#nowMs} to ${atMs}`);
    if (atMs > MOST_MS)
      throw new ConfigError(
        `${atMs / 1000} s are too long to simulate: wanted ${MOST_MS / 1000} s, some 300 years, at most, from the first request to the last`,
      );
    this.#timers.pop();
    this.#nowMs = atMs;
    this.#rank = rank;
    timer.run = null;
    run!();
    return true;
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  if (a.atMs !== b.atMs) return a.atMs < b.atMs;
  return a.rank !== b.rank ? a.rank < b.rank : a.order < b.order;
}
