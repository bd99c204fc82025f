/** Checks after a storm of faults: once every caller has gone, no request, hold or memory may be left over. */
import type { Clock } from '../../engine/types.ts';
import { messageOf } from '../../errors.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import type { EngineStats } from '../../host/engine-report.ts';
import { sum } from '../../sum.ts';
import type { ViolationKind } from './types.ts';

export type Found = { kind: ViolationKind; detail: string };

/** The part of a cluster that is checked. */
export interface CheckedCluster extends Pick<EngineCluster, 'stats' | 'checkIntegrity'> {
  engines: readonly Pick<ThreadEngine, 'engineId' | 'role' | 'started'>[];
}

/** Waits at most `limitMs` until no request runs and no block is held, then checks everything. */
export async function checkCalm(cluster: CheckedCluster, clock: Clock, limitMs: number): Promise<Found[]> {
  const until = clock.now() + limitMs;
  let stats = await cluster.stats();
  while (stats.some(isBusy) && clock.now() < until) {
    await clock.sleep(5);
    stats = await cluster.stats();
  }
  const found = stats.flatMap((engine) => leftovers(engine));
  for (const engine of stats) found.push(...grown(engine, cluster));
  try {
    await cluster.checkIntegrity();
  } catch (error) {
    found.push({ kind: 'books wrong', detail: messageOf(error) });
  }
  return found;
}

const isBusy = (engine: EngineStats): boolean => leftovers(engine).length > 0;

function leftovers(engine: EngineStats): Found[] {
  const { engineId, running, waiting, waitingForRemote, heldRequests, usedBlocks } = engine;
  const found: Found[] = [];
  if (running + waiting + waitingForRemote > 0) {
    const detail = `${engineId}: ${running} requests running, ${waiting} waiting and ${waitingForRemote} waiting for KV, without a caller`;
    found.push({ kind: 'request parked', detail });
  }
  if (heldRequests > 0 || usedBlocks > 0) {
    const detail = `${engineId}: ${heldRequests} ended requests hold blocks and ${usedBlocks} blocks are in use, without a caller`;
    found.push({ kind: 'blocks held', detail });
  }
  return found;
}

/**
 * An engine allocates its device memory at the start, except one block, allocated later, that fills new blocks with NaN;
 * and one slab of shared memory for each engine that it reads from, the first one at the start.
 */
function grown({ engineId, memory }: EngineStats, cluster: CheckedCluster): Found[] {
  const engine = cluster.engines.find((engine) => engine.engineId === engineId);
  if (!engine) return [];
  const { shared = 0, ...onDevice } = engine.started.memory;
  const atStart = sum(Object.values(onDevice)) + engine.started.blockBytes;
  const found: Found[] = [];
  const grew = (now: number, most: number, where: string): void => {
    const detail = `${engineId}: ${now} bytes ${where}, at most ${most} expected`;
    if (now > most) found.push({ kind: 'memory grew', detail });
  };
  grew(memory.gpu, atStart, 'on its device');
  const partners = cluster.engines.filter(({ role }) => role !== engine.role).length;
  grew(memory.shared, shared * Math.max(1, partners), 'shared');
  return found;
}
