/**
 * File calls that may never return, as on a pipe to which nobody writes, or a network drive. When a process ends, Node waits
 * for them.
 */
import { setTimeout } from 'node:timers/promises';

const waits = new Set<object>();

/** How long a disk that answers may take for the calls that are under way, ms. */
const LAST_MS = 200;
const LOOK_MS = 10;

/** Returns a function to call when the call has returned. */
export function beginWait(): () => void {
  const wait = {};
  waits.add(wait);
  return () => void waits.delete(wait);
}

/** Whether a file call hangs. */
export async function fileCallHangs(): Promise<boolean> {
  for (let waited = 0; waits.size > 0 && waited < LAST_MS; waited += LOOK_MS) await setTimeout(LOOK_MS);
  return waits.size > 0;
}
