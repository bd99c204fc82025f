/** What must be so when the storm is over and every caller has gone: nothing is left of it. */
import type { Clock } from '../../engine/types.ts';
import { messageOf } from '../../errors.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import type { EngineStats } from '../../host/engine-report.ts';
import type { ViolationKind } from './types.ts';

export type Found = { kind: ViolationKind; detail: string };

/** What is looked into: a cluster, as far as that takes one. */
export interface CheckedCluster extends Pick<EngineCluster, 'stats' | 'checkIntegrity'> {
  engines: readonly Pick<ThreadEngine, 'engineId' | 'started'>[];
}

/** Waits, at most `limitMs`, until nothing is under way or held; then looks into everything. */
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
    const detail = `${engineId}: ${running} run, ${waiting} wait, ${waitingForRemote} wait for KV, and nobody asked`;
    found.push({ kind: 'request parked', detail });
  }
  if (heldRequests > 0 || usedBlocks > 0) {
    const detail = `${engineId}: ${heldRequests} requests hold ${usedBlocks} blocks for nobody`;
    found.push({ kind: 'blocks held', detail });
  }
  return found;
}

/** What an engine takes of its device is made at its start; what fills new blocks with NaN is one block, made when first used. */
function grown({ engineId, memory }: EngineStats, cluster: CheckedCluster): Found[] {
  const engine = cluster.engines.find((engine) => engine.engineId === engineId);
  if (!engine) return [];
  const { shared = 0, ...onDevice } = engine.started.memory;
  const atStart = Object.values(onDevice).reduce((sum, bytes) => sum + bytes, engine.started.blockBytes);
  const found: Found[] = [];
  const grew = (now: number, start: number, where: string): void => {
    const detail = `${engineId}: ${now} bytes ${where}, ${start} at the start`;
    if (now > start) found.push({ kind: 'memory grew', detail });
  };
  grew(memory.gpu, atStart, 'on its device');
  grew(memory.shared, shared, 'shared');
  return found;
}
