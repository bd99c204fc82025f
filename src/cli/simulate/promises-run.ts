/** Signals and output are handled at least once in this many calls. */
const CALLS_A_TASK = 1024;
const resolved = Promise.resolve();
let calls = 0;
/** Caches the closure of a callback that is passed repeatedly. */
let last: { run: () => void; tick: () => void } | null = null;

/** Calls back once all resolved promises have continued. Occasionally uses the event loop's next task, which costs more. */
export function promisesRun(run: () => void): void {
  if (++calls % CALLS_A_TASK === 0) setImmediate(run);
  // nextTick requested from a promise runs after all promise callbacks; requested from another tick it would run before.
  else {
    if (last?.run !== run) last = { run, tick: () => process.nextTick(run) };
    resolved.then(last.tick);
  }
}
