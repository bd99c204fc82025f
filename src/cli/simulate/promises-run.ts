/** Signals and output wait so many calls at most. */
const CALLS_A_TASK = 1024;
let calls = 0;

/** Resolves when all promises that were resolved have run on; now and then in the event loop's next task, which is dearer. */
export function promisesRun(): Promise<void> {
  const wait = ++calls % CALLS_A_TASK === 0 ? setImmediate : process.nextTick;
  return new Promise((resolve) => wait(resolve));
}
