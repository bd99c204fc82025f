/**
 * While a promise of Dawn is pending in Node, Dawn polls for it in every turn of the event loop, through the global
 * setImmediate. A software adapter computes on the same processors and slows down. After a few turns of one wait, polls
 * here are preceded by a short sleep.
 */

/** Polls without a sleep. They cover a small block's copy, about 0.1 ms. */
const EAGER_TURNS = 10;
/**
 * Shorter than the shortest timer, since most waits of a transfer end sooner than that. The thread handles no messages
 * while it sleeps.
 */
const SLEEP_MS = 0.2;
/** Polls further apart than this belong to different waits. */
const SAME_WAIT_MS = 0.1;

export type Defer = (callback: (...args: unknown[]) => void, ...args: unknown[]) => unknown;

/** A setImmediate for polling. `now` is in milliseconds. */
export function easedImmediate(immediate: Defer, sleep: () => void, now: () => number): Defer {
  let turns = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  return (callback, ...args) => {
    turns = now() - lastMs > SAME_WAIT_MS ? 1 : turns + 1;
    if (turns > EAGER_TURNS) sleep();
    lastMs = now();
    return immediate(callback, ...args);
  };
}

let eased = false;

/** Replaces setImmediate for this thread, permanently. Nothing else in an engine's thread uses it. */
export function easePolling(): void {
  if (eased) return;
  eased = true;
  const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const sleep = () => void Atomics.wait(never, 0, 0, SLEEP_MS);
  const polling = easedImmediate(setImmediate, sleep, () => performance.now());
  Object.assign(globalThis, { setImmediate: polling });
}
