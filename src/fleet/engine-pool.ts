/** The engines of a cluster: started side by side, connected with each other, replaced where they ended. */
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineWire } from '../transport/channel.ts';
import type { SharedMemory } from './memory-needs.ts';
import { type EngineSpec, engineSpecs, engineStart } from './options.ts';
import { connect, ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** A place in the fleet, and the engine that has it now. */
interface Seat {
  spec: EngineSpec;
  engine: ThreadEngine;
  /** From 1 on. */
  life: number;
}

export class EnginePool {
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #options: ClusterOptions;
  readonly #wire: EngineWire | undefined;
  readonly #seats: Seat[] = [];

  private constructor(platform: Platform, clock: Clock, options: ClusterOptions, wire?: EngineWire) {
    this.#wire = wire;
    this.#platform = platform;
    this.#clock = clock;
    this.#options = options;
  }

  /** `shared`: what the engines make their weights in. Throws KvferryError, with nothing left running. */
  static async start(
    platform: Platform,
    clock: Clock,
    options: ClusterOptions,
    shared: SharedMemory | null = null,
    wire?: EngineWire,
  ): Promise<EnginePool> {
    const pool = new EnginePool(platform, clock, options, wire);
    const specs = engineSpecs(options);
    const first = async (spec: EngineSpec): Promise<ThreadEngine> => {
      try {
        return await pool.#start(spec, 1, options.mode, shared?.memory);
      } catch (error) {
        shared?.abandon();
        throw error;
      }
    };
    const started = await Promise.allSettled(specs.map(first));
    for (const [i, result] of started.entries())
      if (result.status === 'fulfilled') pool.#seats.push({ spec: specs[i]!, engine: result.value, life: 1 });
    try {
      for (const result of started) if (result.status === 'rejected') throw result.reason;
      for (const [i, engine] of pool.all.entries()) await connect(engine, pool.all.slice(i + 1), wire);
      return pool;
    } catch (error) {
      await pool.shutdown();
      throw error;
    }
  }

  /** Ended ones included, in the order of their specs. */
  get all(): readonly ThreadEngine[] {
    return this.#seats.map(({ engine }) => engine);
  }

  get alive(): readonly ThreadEngine[] {
    return this.all.filter((engine) => !engine.dead);
  }

  /** Each with what it was built from. */
  get seats(): readonly Readonly<Seat>[] {
    return this.#seats;
  }

  /** Asks all that serve at once; one that ends meanwhile is left out. Rejects, when all have answered, with what else fails. */
  async each<T>(call: (engine: ThreadEngine, spec: EngineSpec) => Promise<T>): Promise<T[]> {
    const serving = this.#seats.filter(({ engine }) => !engine.ended);
    const answers = await Promise.allSettled(serving.map(({ engine, spec }) => call(engine, spec)));
    return answers.flatMap((answer, i) => {
      if (answer.status === 'fulfilled') return [answer.value];
      if (serving[i]!.engine.ended) return [];
      throw answer.reason;
    });
  }

  /**
   * Puts a new engine, which `prepare` makes ready, in the place of each that is dead; returns how many. Rejects when one
   * cannot be started; those before it stay, and nothing half made is left running.
   */
  async replaceDead(
    mode: Mode,
    prepare: (engine: ThreadEngine, spec: EngineSpec, replaced: ThreadEngine) => Promise<void>,
  ): Promise<number> {
    const dead = this.#seats.filter(({ engine }) => engine.dead);
    for (const seat of dead) {
      const engine = await this.#start(seat.spec, seat.life + 1, mode);
      try {
        await connect(engine, this.alive, this.#wire);
        await prepare(engine, seat.spec, seat.engine);
      } catch (error) {
        await engine.shutdown();
        throw error;
      }
      seat.engine = engine;
      seat.life++;
    }
    return dead.length;
  }

  async shutdown(): Promise<void> {
    await Promise.all(this.all.map((engine) => engine.shutdown()));
  }

  #start(
    spec: EngineSpec,
    life: number,
    mode: Mode,
    sharedWeights: SharedArrayBuffer | null = null,
  ): Promise<ThreadEngine> {
    const start = { ...engineStart(this.#options, spec, life, mode), sharedWeights };
    return ThreadEngine.start(this.#platform, start, spec, this.#clock);
  }
}
