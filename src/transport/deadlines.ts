/**
 * Nobody waits for ever for a message: it may have been lost. What counts is silence, not how long something takes, for a
 * slow link or a long prefill is no fault; whoever serves says now and then that it still does.
 */
import type { Clock } from '../engine/types.ts';

/** A peer that was not heard of for so long is asked anew, unless an engine is started with another time. */
export const SILENCE_MS = 20_000;
/** In the time of a silence a holder says so often that a READ is under way. */
export const ALIVE_SIGNS = 4;
/** How often something is asked for, the first time included. */
export const ATTEMPTS = 3;

const LATE: unique symbol = Symbol('late');

/** What the work gives; what `late` gives, or throws, when it takes longer than that: the work goes on then. */
export async function inTime<T, L>(
  work: Promise<T>,
  ms: number,
  clock: Pick<Clock, 'sleep'>,
  late: () => L,
): Promise<T | L> {
  const over = new AbortController();
  try {
    const first = await Promise.race([work, clock.sleep(ms, over.signal).then((): typeof LATE => LATE)]);
    return first === LATE ? late() : first;
  } finally {
    over.abort();
  }
}

/** What the work gives, however long it takes; `late` is called once when it has not come after `silenceMs`. */
export async function unlessSilent<T>(
  work: Promise<T>,
  silenceMs: number,
  clock: Clock,
  late: () => void,
): Promise<T> {
  const over = new AbortController();
  void silence(clock, silenceMs, () => 0, over.signal).then((isSilent) => {
    if (isSilent) late();
  });
  try {
    return await work;
  } finally {
    over.abort();
  }
}

/**
 * Resolves true after two halves of `silenceMs` in which `news` did not change, so that a clock that jumps is not taken for
 * silence; false when the signal aborts first.
 */
export async function silence(
  clock: Clock,
  silenceMs: number,
  news: () => number,
  signal: AbortSignal,
): Promise<boolean> {
  let last = news();
  for (let silentHalves = 0; silentHalves < 2; ) {
    await clock.sleep(silenceMs / 2, signal);
    if (signal.aborted) return false;
    silentHalves = news() === last ? silentHalves + 1 : 0;
    last = news();
  }
  return true;
}
