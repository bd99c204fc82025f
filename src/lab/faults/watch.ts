/** Limits every wait: a call that does not end in time is a violation, reported by name. */
import type { Clock } from '../../engine/types.ts';

export class Hangs extends Error {}

/** Rejects with Hangs if the promise has not settled after `ms`. `what` names the call in the message. */
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
