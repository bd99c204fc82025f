/** The one real clock. Policy takes a Clock; tests give it another. */
import type { Clock } from '../engine/types.ts';

/** Timers beyond it end at once, in Node and in browsers: 24 days, which is as good as never. */
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
