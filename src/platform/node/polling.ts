/**
 * While a promise of Dawn's is pending in Node, Dawn asks for it in every turn of the event loop, by the global
 * setImmediate. A software adapter computes on the same processors and waits for the one that asks: here, who has asked
 * a few turns long sleeps before each further question.
 */

/** A wait for a copy of a small block is over within these, some 0.1 ms. */
const EAGER_TURNS = 10;
/** Shorter than a timer's shortest: most waits of a transfer end between the two. The thread hears no message meanwhile. */
const SLEEP_MS = 0.2;
/** Turns further apart than this belong to different waits. */
const SAME_WAIT_MS = 0.1;

export type Defer = (callback: (...args: unknown[]) => void, ...args: unknown[]) => unknown;

/** setImmediate for one who polls. */
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

/** For this thread, from now on. Nothing else in an engine's thread uses setImmediate. */
export function easePolling(): void {
  if (eased) return;
  eased = true;
  const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const sleep = () => void Atomics.wait(never, 0, 0, SLEEP_MS);
  const polling = easedImmediate(setImmediate, sleep, () => performance.now());
  Object.assign(globalThis, { setImmediate: polling });
}
