/** Signals and output wait so many calls at most. */
const CALLS_A_TASK = 1024;
const resolved = Promise.resolve();
let calls = 0;
/** What is called again and again is not bound anew each time. */
let last: { run: () => void; tick: () => void } | null = null;

/** Calls back when all promises that were resolved have run on; now and then in the event loop's next task, which is dearer. */
export function promisesRun(run: () => void): void {
  if (++calls % CALLS_A_TASK === 0) setImmediate(run);
  // Asked for by a promise, it comes when all of them have run on; by another tick, before.
  else {
    if (last?.run !== run) last = { run, tick: () => process.nextTick(run) };
    resolved.then(last.tick);
  }
}
