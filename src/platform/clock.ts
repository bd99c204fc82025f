/** The only real clock. Policy code receives a Clock; tests pass their own. */
import type { Clock } from '../engine/types.ts';

/** The longest timer in Node and browsers, 24 days. Longer ones would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const timerMs = (ms: number): number => Math.min(ms, LONGEST_TIMER_MS);

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      let timer: ReturnType<typeof setTimeout>;
      const wait = (left: number): void => {
        timer = setTimeout(
          () => (left > LONGEST_TIMER_MS ? wait(left - LONGEST_TIMER_MS) : done()),
          timerMs(left),
        );
      };
      wait(ms);
      function done(): void {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      }
      signal?.addEventListener('abort', done);
    }),
};
