/**
 * Starts a fleet's first engines in threads, in parallel, and connects them; engines that join later are started the
 * same way.
 */
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import { EngineDeadError } from '../errors.ts';
import type { EngineStart } from '../host/engine-api.ts';
import { isPreset } from '../model/architecture/presets.ts';
import { loadCheckpoint } from '../model/load.ts';
import type { Checkpoint } from '../model/weights/hf-weights.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineWire } from '../transport/channel.ts';
import { EnginePool } from './engine-pool.ts';
import type { SharedMemory } from './memory-needs.ts';
import { engineStart, fleetIn } from './options.ts';
import type { Seat } from './seats.ts';
import { connect, ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** What the first engines share. */
interface Together {
  /** null: the model is a preset without a checkpoint. */
  checkpoint: Checkpoint | null;
  /** Memory in which they generate their weights together; null: each generates its own. */
  shared: SharedMemory | null;
}

/** Throws KvferryError; nothing is left running then. */
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
    seat: Seat,
    life: number,
    mode: Mode,
    source: Pick<EngineStart, 'checkpoint' | 'sharedWeights'>,
  ) => ThreadEngine.start(platform, { ...engineStart(options, seat, life, mode), ...source }, seat, clock);
  const together = { checkpoint, sharedWeights: shared?.memory ?? null };
  const first = async (seat: Seat): Promise<ThreadEngine> => {
    try {
      return await start(seat, 1, options.mode, together);
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
    // Files may have changed meanwhile, so they are checked again.
    start: async (seat, life, mode) =>
      start(seat, life, mode, { checkpoint: await checkpointNow(), sharedWeights: null }),
    connect: async (engine, others, seats) => {
      // Give up stuck engines first, so that they do not keep others from joining.
      await Promise.all(others.map((other) => other.answers()));
      for (const other of others.filter(({ dead }) => !dead))
        await connect(engine, [other], wire, seats).catch((error: unknown) => {
          // Neither must an engine that ends at this moment; its thread may know of it before this one does.
          if (!other.dead && !(error instanceof EngineDeadError)) throw error;
          return engine.serving.peerDied(other.engineId);
        });
    },
  });
}
