/** Merges consecutive block ids into runs, so that each run is copied by one command. */
import type { BlockId } from '../engine/types.ts';

/** Runs of ids that ascend by one, in the given order, as [first id, number of blocks]: [4, 5, 6, 2] gives [4, 3], [2, 1]. */
export function mergeRuns(ids: readonly BlockId[]): [start: BlockId, length: number][] {
  const runs: [BlockId, number][] = [];
  for (const id of ids) {
    const last = runs.at(-1);
    if (last && last[0] + last[1] === id) last[1] += 1;
    else runs.push([id, 1]);
  }
  return runs;
}
