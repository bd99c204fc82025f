/**
 * The engines of a fleet in their places: started, made known to each other, replaced where they ended, added and taken out.
 * How an engine is started is its starter's: in a thread (thread-pool.ts), or simulated.
 */
import type { Mode } from '../config/modes.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { type FleetOptions, type Seat, withoutSeat, withSeat } from './seats.ts';
import type { ThreadEngine } from './thread-engine.ts';

export interface PooledEngine {
  readonly engineId: string;
  readonly role: EngineRole;
  /** It serves no more; null: it does. */
  readonly ended: Error | null;
  /** It is gone: another may take its place. */
  readonly dead: boolean;
  shutdown(): Promise<void>;
}

export interface EngineStarter<E> {
  /** `life`: from 1 on, one more for each engine in this place. */
  start(spec: Seat, life: number, mode: Mode): Promise<E>;
  connect(engine: E, others: readonly E[], fleet: FleetOptions): Promise<void>;
}

/** A place in the fleet, and the engine that has it now. */
interface Place<E> {
  spec: Seat;
  engine: E;
}

/** Makes an engine that is connected ready to serve. */
type Prepare<E> = (engine: E, spec: Seat, replaced: E | null) => Promise<void>;

export class EnginePool<E extends PooledEngine = ThreadEngine> {
  readonly #starter: EngineStarter<E>;
  #fleet: FleetOptions;
  #places: Place<E>[];
  /** Who has them, once somebody asked; null: that has changed since. */
  #all: readonly E[] | null = null;
  /** Engines that each seat's name has had: of one that comes again, no id comes twice. */
  readonly #lives = new Map<string, number>();

  /** `first`: in the order of the fleet's seats, connected. */
  constructor(fleet: FleetOptions, first: readonly E[], starter: EngineStarter<E>) {
    this.#fleet = fleet;
    this.#starter = starter;
    this.#places = first.map((engine, i) => ({ spec: fleet.seats[i]!, engine }));
    for (const { name } of fleet.seats) this.#lives.set(name, 1);
  }

  /** Its seats as they are now, those of engines on their way out included. */
  get fleet(): FleetOptions {
    return this.#fleet;
  }

  /** Ended ones included, in the order of their seats. */
  get all(): readonly E[] {
    this.#all ??= this.#places.map(({ engine }) => engine);
    return this.#all;
  }

  get alive(): readonly E[] {
    return this.all.filter((engine) => !engine.dead);
  }

  /** The role's first that serves, if one does. */
  first(role: EngineRole): E {
    const ofRole = this.all.filter((engine) => engine.role === role);
    return ofRole.find(({ ended }) => !ended) ?? ofRole[0]!;
  }

  /** Asks all that serve at once; one that ends meanwhile is left out. Rejects, when all have answered, with what else fails. */
  async each<T>(call: (engine: E, spec: Seat) => Promise<T>): Promise<T[]> {
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
    prepare: Prepare<E>,
    stays: (engine: E) => boolean = () => true,
  ): Promise<number> {
    const dead = this.#places.filter(({ engine }) => engine.dead && stays(engine));
    for (const place of dead) {
      place.engine = await this.#joined(place.spec, this.#fleet, mode, prepare, place.engine);
      this.#all = null;
    }
    return dead.length;
  }

  /** Starts an engine in a seat of its own. Rejects, with the fleet as it was and nothing left running, when it cannot be. */
  async add(seat: Pick<Seat, 'name' | 'role' | 'roleset'>, mode: Mode, prepare: Prepare<E>): Promise<E> {
    const fleet = withSeat(this.#fleet, seat);
    const spec = fleet.seats.find(({ name }) => name === seat.name)!;
    const engine = await this.#joined(spec, fleet, mode, prepare, null);
    this.#fleet = fleet;
    const places = [...this.#places, { spec, engine }];
    this.#places = fleet.seats.map(({ name }) => places.find((place) => place.spec.name === name)!);
    this.#all = null;
    return engine;
  }

  /** Ends the engine, and takes its seat out. */
  async remove({ name }: Pick<Seat, 'name'>): Promise<void> {
    await this.#places.find(({ spec }) => spec.name === name)?.engine.shutdown();
    this.#places = this.#places.filter(({ spec }) => spec.name !== name);
    this.#all = null;
    this.#fleet = withoutSeat(this.#fleet, name);
  }

  async shutdown(): Promise<void> {
    await Promise.all(this.all.map((engine) => engine.shutdown()));
  }

  async #joined(
    spec: Seat,
    fleet: FleetOptions,
    mode: Mode,
    prepare: Prepare<E>,
    replaced: E | null,
  ): Promise<E> {
    const life = (this.#lives.get(spec.name) ?? 0) + 1;
    this.#lives.set(spec.name, life);
    const engine = await this.#starter.start(spec, life, mode);
    try {
      await this.#starter.connect(engine, this.alive, fleet);
      await prepare(engine, spec, replaced);
      return engine;
    } catch (error) {
      await engine.shutdown();
      throw error;
    }
  }
}
