/** Read-only queries over all engines that serve. */
import type { Clock } from '../engine/types.ts';
import type { MeasuredKernels } from '../measure/spans/profile.ts';
import { callWithTimeout } from './call-with-timeout.ts';
import { droppedNote } from './dropped-note.ts';
import type { EnginePool } from './engine-pool.ts';
import type { ClusterNotice } from './notices.ts';
import type { CacheAnswers, EngineSnapshot } from './types.ts';

/** `patienceMs`: how long to wait for each engine; null: without limit. */
export async function lookupIn(
  pool: Pick<EnginePool, 'each'>,
  tokenIds: readonly number[],
  cacheSalt: string | null,
  clock: Clock,
  patienceMs: number | null,
): Promise<Pick<CacheAnswers, 'engines' | 'unanswered'>> {
  const unanswered: string[] = [];
  const engines = await pool.each(async (engine) => {
    const { engineId, role, combined } = engine;
    const lookUp = () => engine.lookup(tokenIds, cacheSalt);
    const found =
      patienceMs === null ? await lookUp() : await callWithTimeout(engine, lookUp, clock, patienceMs);
    if (found) return [{ engineId, role, combined, ...found }];
    unanswered.push(engineId);
    return [];
  });
  return { engines: engines.flat(), unanswered };
}

export const snapshotOf = (pool: EnginePool): Promise<EngineSnapshot[]> =>
  pool.each(async ({ engineId, role, inspection }) => {
    const [blocks, stats] = await Promise.all([inspection.blocks(), inspection.stats()]);
    return { engineId, role, blocks, stats };
  });

/**
 * Asks one engine after the other, since ceilings must be measured on an otherwise idle machine. Skips engines that
 * have ended.
 */
export async function kernelTimesOf(pool: Pick<EnginePool, 'all'>): Promise<MeasuredKernels[]> {
  const taken: MeasuredKernels[] = [];
  for (const engine of pool.all) {
    if (engine.ended) continue;
    try {
      taken.push(await engine.lab.takeKernelTimes());
    } catch (error) {
      if (!engine.ended) throw error;
    }
  }
  return taken;
}

/** Reports in words what keeps a request waiting, or that its hold was dropped. */
export function reportWaiting(
  notice: ClusterNotice,
  listener: (requestId: string, reason: string) => void,
): void {
  if (notice.kind !== 'engine') return;
  const { engineId, event } = notice;
  if (event.kind === 'waiting') listener(event.requestId, `${engineId}: ${event.reason}`);
  else if (event.kind === 'hold_dropped')
    listener(event.requestId, `${engineId}: ${droppedNote(event.direction)}`);
}
