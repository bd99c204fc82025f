/** Limits every wait: a call that does not end in time is a violation, reported by name. */
import type { Clock } from '../../engine/types.ts';
import { inTime } from '../../transport/deadlines.ts';

export class Hangs extends Error {}

/** Rejects with Hangs if the promise has not settled after `ms`. `what` names the call in the message. */
export const within = <T>(clock: Clock, ms: number, what: string, promise: Promise<T>): Promise<T> =>
  inTime(promise, ms, clock, () => {
    throw new Hangs(`${what} has not ended after ${ms / 1000} s`);
  });
