/**
 * Timeouts for messages that may have been lost. They measure silence, not duration, because a slow link or a long prefill is
 * not a fault: while it serves, a holder regularly sends a sign of life.
 */
import type { Clock } from '../engine/types.ts';

/** Default time after which a silent peer is asked again, ms. */
export const SILENCE_MS = 20_000;
/** How many 'alive' messages a holder sends per silence timeout while it serves a READ. */
export const ALIVE_SIGNS = 4;
/** Total number of attempts, including the first. */
export const ATTEMPTS = 3;

const LATE: unique symbol = Symbol('late');

/** The result of `work`; or, if it takes longer than `ms`, the result (or exception) of `late`. The work is not cancelled. */
export async function inTime<T, L>(
  work: Promise<T>,
  ms: number,
  clock: Pick<Clock, 'sleep'>,
  late: () => L,
): Promise<T | L> {
  const done = new AbortController();
  try {
    const first = await Promise.race([work, clock.sleep(ms, done.signal).then((): typeof LATE => LATE)]);
    return first === LATE ? late() : first;
  } finally {
    done.abort();
  }
}

/** The result of `work`, however long it takes. Calls `late` once if it is not there after `silenceMs`. */
export async function unlessSilent<T>(
  work: Promise<T>,
  silenceMs: number,
  clock: Clock,
  late: () => void,
): Promise<T> {
  const done = new AbortController();
  void silence(clock, silenceMs, () => 0, done.signal).then((isSilent) => {
    if (isSilent) late();
  });
  try {
    return await work;
  } finally {
    done.abort();
  }
}

/**
 * Resolves true after two consecutive halves of `silenceMs` without a change of `news()`, so that a clock jump is not taken for
 * silence. Resolves false if the signal aborts first.
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
