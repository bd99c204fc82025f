/** A clock that tests advance, and helpers that wait for work on it. */
import type { Clock } from '../src/engine/types.ts';

/** Time stands still until a test advances it. */
export class TestClock implements Clock {
  #now: number;
  readonly #sleepers = new Set<{ at: number; wake: () => void }>();

  constructor(now = 1_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const sleeper = {
        at: this.#now + ms,
        wake: () => {
          this.#sleepers.delete(sleeper);
          signal?.removeEventListener('abort', sleeper.wake);
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', sleeper.wake);
    });
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const sleeper of [...this.#sleepers]) if (sleeper.at <= this.#now) sleeper.wake();
  }

  /** Advances to the next sleeper's time; false if nobody sleeps. */
  skip(): boolean {
    const next = Math.min(...[...this.#sleepers].map((sleeper) => sleeper.at));
    if (!Number.isFinite(next)) return false;
    this.advance(Math.max(0, next - this.#now));
    return true;
  }
}

/** Resolves once the callbacks of promises that are already settled have run. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Turns of the event loop within which a message between threads is delivered and answered. */
const MESSAGE_TURNS = 20;

/** The result of `work`. Once messages between threads are delivered, the clock skips to the next sleeper. */
export async function inNoTime<T>(clock: TestClock, work: Promise<T>): Promise<T> {
  let ended = false;
  const end = () => {
    ended = true;
  };
  work.then(end, end);
  while (!ended) {
    for (let i = 0; i < MESSAGE_TURNS; i++) await settled();
    clock.skip();
  }
  return work;
}
