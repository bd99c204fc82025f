/** In which order a folder's files are evicted after a start. What was used since they were written is not known then. */
import type { StoreFile } from '../platform/types.ts';

/** A text is written from its start to its end, with pauses while it is computed. */
const RUN_MS = 60_000;

/** The oldest first; of those written within RUN_MS the last first, because the end of a text is useless without its start. */
export function inOrderOfEviction(files: readonly StoreFile[]): StoreFile[] {
  const runs: StoreFile[][] = [];
  for (const file of files.toSorted((a, b) => a.modifiedMs - b.modifiedMs)) {
    const run = runs.at(-1);
    if (run && file.modifiedMs <= run[0]!.modifiedMs + RUN_MS) run.push(file);
    else runs.push([file]);
  }
  return runs.flatMap((run) => run.toReversed());
}
