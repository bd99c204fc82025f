/**
 * Virtual time, which passes only from one event to the next: the Clock of all policies, and the queue of future
 * events. Events of one moment run by rank, lowest first, then in the order in which they were scheduled, so that a run
 * repeats bit for bit.
 */
import { Heap } from '../engine/heap.ts';
import type { Clock } from '../engine/types.ts';
import { ConfigError, invariant } from '../errors.ts';

/** A scheduled event. */
export interface Timer {
  atMs: number;
  /** Order among the events of one moment, lowest first. */
  rank: number;
  /** Sequence number of its scheduling. */
  order: number;
  /** null once it has run or was cancelled. */
  run: (() => void) | null;
  /** Index in the queue, valid while it is pending. */
  place: number;
  /** Set for timers of periodic observers: when only these are left, time stops. */
  background?: true;
}

/** Rank of events scheduled without one: after all others. */
const LAST = Number.POSITIVE_INFINITY;

/** About 300 years. Much later, doubles cannot tell apart two times that differ by a step, and time would stop. */
const MOST_MS = 1e13;

export class VirtualClock implements Clock {
  readonly #timers = new Heap<Timer>(isBefore, (timer, place) => {
    timer.place = place;
  });
  #nowMs = 0;
  #rank = LAST;
  #scheduled = 0;

  now(): number {
    return this.#nowMs;
  }

  /** Rank of the event that runs now. All events of this moment with lower ranks that were scheduled before have run. */
  get rank(): number {
    return this.#rank;
  }

  /** Schedules `run` at atMs, or now if that has passed. */
  at(atMs: number, run: () => void, rank = LAST): Timer {
    const timer: Timer = { atMs: Math.max(atMs, this.#nowMs), rank, order: this.#scheduled++, run, place: 0 };
    this.#timers.push(timer);
    return timer;
  }

  /**
   * Removes the event, if it is pending. Most of the engines' timers are cancelled: left in the queue, they would fill
   * it.
   */
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

  /** The same clock for periodic observers: time does not pass for their sleeps alone. */
  background(): Clock {
    return {
      now: () => this.#nowMs,
      sleep: (ms, signal) => this.sleep(ms, signal, true),
    };
  }

  /**
   * Advances to the next event and runs it. Returns false if none is left, or only background ones. Throws ConfigError
   * if it is centuries away.
   */
  next(): boolean {
    const timer = this.#timers.first;
    if (!timer) return false;
    const { run, atMs, rank, background } = timer;
    if (background && this.#timers.items.every((other) => other.background)) return false;
    invariant(atMs >= this.#nowMs, () => `the clock would go back from ${this.#nowMs} to ${atMs}`);
    if (atMs > MOST_MS)
      throw new ConfigError(
        `${atMs / 1000} s is too long to simulate: wanted at most ${MOST_MS / 1000} s, about 300 years, from the first request to the last`,
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
