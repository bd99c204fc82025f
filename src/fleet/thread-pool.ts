/** A fleet's first engines in threads, started side by side and connected with each other; those that come later likewise. */
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import type { EngineStart } from '../host/engine-api.ts';
import type { Checkpoint } from '../model/hf-weights.ts';
import { loadCheckpoint } from '../model/load.ts';
import { isPreset } from '../model/presets.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineWire } from '../transport/channel.ts';
import { EnginePool } from './engine-pool.ts';
import type { SharedMemory } from './memory-needs.ts';
import { engineStart, fleetIn } from './options.ts';
import type { Seat } from './seats.ts';
import { connect, ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** What the first engines have in common. */
interface Together {
  /** null: a preset has none. */
  checkpoint: Checkpoint | null;
  /** What they make their weights in; null: each makes its own. */
  shared: SharedMemory | null;
}

/** Throws KvferryError, with nothing left running. */
export async function startThreads(
  platform: Platform,
  clock: Clock,
  options: ClusterOptions,
  { checkpoint, shared }: Together,
  wire?: EngineWire,
): Promise<EnginePool> {
  const fleet = fleetIn(options);
  const { model } = options;
  const checkpointNow = async (): Promise<Checkpoint | null> =>
    isPreset(model) ? null : loadCheckpoint(model, await platform.openModel(model));
  const start = (
    spec: Seat,
    life: number,
    mode: Mode,
    source: Pick<EngineStart, 'checkpoint' | 'sharedWeights'>,
  ) => ThreadEngine.start(platform, { ...engineStart(options, spec, life, mode), ...source }, spec, clock);
  const together = { checkpoint, sharedWeights: shared?.memory ?? null };
  const first = async (spec: Seat): Promise<ThreadEngine> => {
    try {
      return await start(spec, 1, options.mode, together);
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
    // Files may have changed since: they are checked again.
    start: async (spec, life, mode) =>
      start(spec, life, mode, { checkpoint: await checkpointNow(), sharedWeights: null }),
    connect: async (engine, others, seats) => {
      // One that is stuck is not to keep others from joining.
      await Promise.all(others.map((other) => other.answers()));
      for (const other of others.filter(({ dead }) => !dead))
        await connect(engine, [other], wire, seats).catch((error: unknown) => {
          // Nor is one that ends just now.
          if (!other.dead) throw error;
          return engine.serving.peerDied(other.engineId);
        });
    },
  });
}
