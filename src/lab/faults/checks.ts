/** What must be so when the storm is over and every caller has gone: nothing is left of it. */
import type { Clock } from '../../engine/types.ts';
import { messageOf } from '../../errors.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { EngineStats } from '../../host/engine-api.ts';
import type { ViolationKind } from './types.ts';

export type Found = { kind: ViolationKind; detail: string };

/** Bytes on each role's device after its start: turns leave them as they are. */
export type MemoryAtStart = Map<string, number>;

/** Waits, at most `limitMs`, until nothing is under way or held; then looks into everything. */
export async function checkCalm(
  cluster: EngineCluster,
  clock: Clock,
  limitMs: number,
  memory: MemoryAtStart,
): Promise<Found[]> {
  const until = clock.now() + limitMs;
  let stats = await cluster.stats();
  while (stats.some(isBusy) && clock.now() < until) {
    await clock.sleep(5);
    stats = await cluster.stats();
  }
  const found = stats.flatMap((engine) => leftovers(engine));
  for (const engine of stats) found.push(...grown(engine, cluster, memory));
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

function grown(
  { engineId, memory: now }: EngineStats,
  cluster: EngineCluster,
  atStart: MemoryAtStart,
): Found[] {
  const role = cluster.engines.find((engine) => engine.engineId === engineId)?.role ?? engineId;
  const before = atStart.get(role) ?? now.gpu;
  atStart.set(role, before);
  if (now.gpu === before) return [];
  return [
    { kind: 'memory grew', detail: `${engineId}: ${now.gpu} bytes on its device, ${before} at the start` },
  ];
}
