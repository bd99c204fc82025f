/**
 * The next turn of the event loop, for code that polls a device. A software adapter computes on the same processors and
 * slows down, so after a few turns of one wait, polls are preceded by a short sleep.
 */

/** Polls without a sleep. They cover a small block's copy, about 0.1 ms. */
const EAGER_TURNS = 10;
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

/** An immediate by messages, for one callback at a time. A timer would take a millisecond or more. Keeps a process alive. */
export function messageImmediate(): (callback: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  let resume: (() => void) | null = null;
  port1.onmessage = () => resume?.();
  return (callback) => {
    resume = callback;
    port2.postMessage(null);
  };
}

/** Lets the thread sleep, in milliseconds. It handles no messages meanwhile. */
export function sleeper(ms: number): () => void {
  const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  return () => void Atomics.wait(never, 0, 0, ms);
}
