/**
 * While a promise of Dawn is pending in Node, Dawn polls for it in every turn of the event loop, through the global
 * setImmediate.
 */
import { easedImmediate, sleeper } from '../eased-immediate.ts';

/** Shorter than the shortest timer, since most waits of a transfer end sooner than that. */
const SLEEP_MS = 0.2;

let eased = false;

/** Replaces setImmediate for this thread, permanently. Nothing else in an engine's thread uses it. */
export function easePolling(): void {
  if (eased) return;
  eased = true;
  const polling = easedImmediate(setImmediate, sleeper(SLEEP_MS), () => performance.now());
  Object.assign(globalThis, { setImmediate: polling });
}
