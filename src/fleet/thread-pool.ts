/** A fleet's first engines in threads, started side by side and connected with each other; those that come later likewise. */
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineWire } from '../transport/channel.ts';
import { EnginePool } from './engine-pool.ts';
import type { SharedMemory } from './memory-needs.ts';
import { engineStart, fleetIn } from './options.ts';
import type { Seat } from './seats.ts';
import { connect, ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** `shared`: what the engines make their weights in. Throws KvferryError, with nothing left running. */
export async function startThreads(
  platform: Platform,
  clock: Clock,
  options: ClusterOptions,
  shared: SharedMemory | null = null,
  wire?: EngineWire,
): Promise<EnginePool> {
  const fleet = fleetIn(options);
  const start = (spec: Seat, life: number, mode: Mode, sharedWeights: SharedArrayBuffer | null = null) =>
    ThreadEngine.start(platform, { ...engineStart(options, spec, life, mode), sharedWeights }, spec, clock);
  const first = async (spec: Seat): Promise<ThreadEngine> => {
    try {
      return await start(spec, 1, options.mode, shared?.memory);
    } catch (error) {
      shared?.abandon();
      throw error;
    }
  };
  const started = await Promise.allSettled(fleet.seats.map(first));
  const engines = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  try {
    for (const result of started) if (result.status === 'rejected') throw result.reason;
    for (const [i, engine] of engines.entries()) await connect(engine, engines.slice(i + 1), wire, fleet);
  } catch (error) {
    await Promise.all(engines.map((engine) => engine.shutdown()));
    throw error;
  }
  return new EnginePool(fleet, engines, {
    start,
    connect: (engine, others, seats) => connect(engine, others, wire, seats),
  });
}
