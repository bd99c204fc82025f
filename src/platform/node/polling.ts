/**
 * While a promise of Dawn's is pending in Node, Dawn asks for it in every turn of the event loop, by the global
 * setImmediate. A software adapter computes on the same processors and waits for the one that asks: here, who has asked
 * a few turns long pauses before asking again.
 */

/** A wait for a copy of a small block is over within these, some 0.2 ms. */
const EAGER_TURNS = 25;
/** A timer's shortest. */
const PAUSE_MS = 1;
/** Turns further apart than this belong to different waits. */
const SAME_WAIT_MS = 0.5;

export type Defer = (callback: (...args: unknown[]) => void, ...args: unknown[]) => unknown;

/** setImmediate for one who polls. */
export function easedImmediate(immediate: Defer, pause: Defer, now: () => number): Defer {
  let turns = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  return (callback, ...args) => {
    const nowMs = now();
    turns = nowMs - lastMs > SAME_WAIT_MS ? 1 : turns + 1;
    lastMs = nowMs;
    if (turns <= EAGER_TURNS) return immediate(callback, ...args);
    turns = 0;
    return pause(callback, ...args);
  };
}

let eased = false;

/** For this thread, from now on. Nothing else in an engine's thread uses setImmediate. */
export function easePolling(): void {
  if (eased) return;
  eased = true;
  const pause: Defer = (callback, ...args) => setTimeout(callback, PAUSE_MS, ...args);
  const polling = easedImmediate(setImmediate, pause, () => performance.now());
  Object.assign(globalThis, { setImmediate: polling });
}
