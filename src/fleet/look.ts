/** What is seen of all engines that serve: nothing is changed by it. */
import type { MeasuredKernels } from '../measure/profile.ts';
import { droppedNote } from './dropped-note.ts';
import type { EnginePool } from './engine-pool.ts';
import type { ClusterNotice } from './notices.ts';
import type { EngineLookup, EngineSnapshot } from './types.ts';

export const lookupIn = (
  pool: EnginePool,
  tokenIds: readonly number[],
  cacheSalt: string | null,
): Promise<EngineLookup[]> =>
  pool.each(async (engine) => {
    const { engineId, role } = engine;
    return { engineId, role, ...(await engine.lookup(tokenIds, cacheSalt)) };
  });

export const snapshotOf = (pool: EnginePool): Promise<EngineSnapshot[]> =>
  pool.each(async ({ engineId, role, inspection }) => {
    const [blocks, stats] = await Promise.all([inspection.blocks(), inspection.stats()]);
    return { engineId, role, blocks, stats };
  });

/** One engine after the other: ceilings are measured on a machine that does nothing else. */
export async function kernelTimesOf(pool: EnginePool): Promise<MeasuredKernels[]> {
  const taken: MeasuredKernels[] = [];
  for (const { lab } of pool.all) taken.push(await lab.takeKernelTimes());
  return taken;
}

/** What keeps a request waiting, or took from it what was held, in words. */
export function tellWaiting(
  notice: ClusterNotice,
  listener: (requestId: string, reason: string) => void,
): void {
  if (notice.kind !== 'engine') return;
  const { engineId, event } = notice;
  if (event.kind === 'waiting') listener(event.requestId, `${engineId}: ${event.reason}`);
  else if (event.kind === 'hold_dropped')
    listener(event.requestId, `${engineId}: ${droppedNote(event.direction)}`);
}
