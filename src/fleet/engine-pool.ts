/** The engines of a cluster: started side by side, connected with each other, replaced where they ended, added and taken out. */
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineWire } from '../transport/channel.ts';
import type { SharedMemory } from './memory-needs.ts';
import { engineStart, fleetIn } from './options.ts';
import { type FleetOptions, type Seat, withoutSeat, withSeat } from './seats.ts';
import { connect, ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** A place in the fleet, and the engine that has it now. */
interface Place {
  spec: Seat;
  engine: ThreadEngine;
}

/** Makes an engine that is connected ready to serve. */
type Prepare = (engine: ThreadEngine, spec: Seat, replaced: ThreadEngine | null) => Promise<void>;

export class EnginePool {
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #options: ClusterOptions;
  readonly #wire: EngineWire | undefined;
  #fleet: FleetOptions;
  #places: Place[] = [];
  /** Engines that each seat's name has had: of one that comes again, no id comes twice. */
  readonly #lives = new Map<string, number>();

  private constructor(platform: Platform, clock: Clock, options: ClusterOptions, wire?: EngineWire) {
    this.#wire = wire;
    this.#platform = platform;
    this.#clock = clock;
    this.#options = options;
    this.#fleet = fleetIn(options);
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
    const { seats } = pool.#fleet;
    const first = async (spec: Seat): Promise<ThreadEngine> => {
      try {
        return await pool.#start(spec, options.mode, shared?.memory);
      } catch (error) {
        shared?.abandon();
        throw error;
      }
    };
    const started = await Promise.allSettled(seats.map(first));
    for (const [i, result] of started.entries())
      if (result.status === 'fulfilled') pool.#places.push({ spec: seats[i]!, engine: result.value });
    try {
      for (const result of started) if (result.status === 'rejected') throw result.reason;
      for (const [i, engine] of pool.all.entries())
        await connect(engine, pool.all.slice(i + 1), wire, pool.#fleet);
      return pool;
    } catch (error) {
      await pool.shutdown();
      throw error;
    }
  }

  /** Its seats as they are now, those of engines on their way out included. */
  get fleet(): FleetOptions {
    return this.#fleet;
  }

  /** Ended ones included, in the order of their seats. */
  get all(): readonly ThreadEngine[] {
    return this.#places.map(({ engine }) => engine);
  }

  get alive(): readonly ThreadEngine[] {
    return this.all.filter((engine) => !engine.dead);
  }

  /** Asks all that serve at once; one that ends meanwhile is left out. Rejects, when all have answered, with what else fails. */
  async each<T>(call: (engine: ThreadEngine, spec: Seat) => Promise<T>): Promise<T[]> {
    const serving = this.#places.filter(({ engine }) => !engine.ended);
    const answers = await Promise.allSettled(serving.map(({ engine, spec }) => call(engine, spec)));
    return answers.flatMap((answer, i) => {
      if (answer.status === 'fulfilled') return [answer.value];
      if (serving[i]!.engine.ended) return [];
      throw answer.reason;
    });
  }

  /**
   * Puts a new engine in the place of each that is dead, but of those that `stay` leaves out; returns how many. Rejects when
   * one cannot be started; those before it stay, and nothing half made is left running.
   */
  async replaceDead(
    mode: Mode,
    prepare: Prepare,
    stays: (engine: ThreadEngine) => boolean = () => true,
  ): Promise<number> {
    const dead = this.#places.filter(({ engine }) => engine.dead && stays(engine));
    for (const place of dead)
      place.engine = await this.#joined(place.spec, this.#fleet, mode, prepare, place.engine);
    return dead.length;
  }

  /** Starts an engine in a seat of its own. Rejects, with the fleet as it was and nothing left running, when it cannot be. */
  async add(
    seat: Pick<Seat, 'name' | 'role' | 'roleset'>,
    mode: Mode,
    prepare: Prepare,
  ): Promise<ThreadEngine> {
    const fleet = withSeat(this.#fleet, seat);
    const spec = fleet.seats.find(({ name }) => name === seat.name)!;
    const engine = await this.#joined(spec, fleet, mode, prepare, null);
    this.#fleet = fleet;
    const places = [...this.#places, { spec, engine }];
    this.#places = fleet.seats.map(({ name }) => places.find((place) => place.spec.name === name)!);
    return engine;
  }

  /** Ends the engine, and takes its seat out. */
  async remove({ name }: Pick<Seat, 'name'>): Promise<void> {
    await this.#places.find(({ spec }) => spec.name === name)?.engine.shutdown();
    this.#places = this.#places.filter(({ spec }) => spec.name !== name);
    this.#fleet = withoutSeat(this.#fleet, name);
  }

  async shutdown(): Promise<void> {
    await Promise.all(this.all.map((engine) => engine.shutdown()));
  }

  async #joined(
    spec: Seat,
    fleet: FleetOptions,
    mode: Mode,
    prepare: Prepare,
    replaced: ThreadEngine | null,
  ): Promise<ThreadEngine> {
    const engine = await this.#start(spec, mode);
    try {
      await connect(engine, this.alive, this.#wire, fleet);
      await prepare(engine, spec, replaced);
      return engine;
    } catch (error) {
      await engine.shutdown();
      throw error;
    }
  }

  #start(spec: Seat, mode: Mode, sharedWeights: SharedArrayBuffer | null = null): Promise<ThreadEngine> {
    const life = (this.#lives.get(spec.name) ?? 0) + 1;
    this.#lives.set(spec.name, life);
    const start = { ...engineStart(this.#options, spec, life, mode), sharedWeights };
    return ThreadEngine.start(this.#platform, start, spec, this.#clock);
  }
}
