/** The one real clock. Policy takes a Clock; tests give it another. */
import type { Clock } from '../engine/types.ts';

/** A timer takes no more milliseconds: of more it makes one. */
const LONGEST_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      let timer: ReturnType<typeof setTimeout>;
      const wait = (left: number): void => {
        timer = setTimeout(
          () => (left > LONGEST_MS ? wait(left - LONGEST_MS) : done()),
          Math.min(left, LONGEST_MS),
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
