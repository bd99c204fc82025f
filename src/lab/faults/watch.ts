/** No call is waited for without end: what does not answer in time is named, and is a violation. */
import type { Clock } from '../../engine/types.ts';

export class Hangs extends Error {}

/** Rejects with Hangs when the promise has not settled in time. */
export async function within<T>(clock: Clock, ms: number, what: string, promise: Promise<T>): Promise<T> {
  const stop = new AbortController();
  try {
    return await Promise.race([
      promise,
      clock.sleep(ms, stop.signal).then((): never => {
        throw new Hangs(`${what} has not ended after ${ms / 1000} s`);
      }),
    ]);
  } finally {
    stop.abort();
  }
}
