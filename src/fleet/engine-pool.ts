/**
 * The engines of a fleet in their seats: started, connected with each other, replaced if they ended, added and
 * removed. A starter starts them: in threads (thread-pool.ts) or simulated.
 */
import type { Mode } from '../config/modes.ts';
import { EngineDeadError } from '../errors.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { type FleetOptions, type Seat, withoutSeat, withSeat } from './seats.ts';
import type { ThreadEngine } from './thread-engine.ts';

export interface PooledEngine {
  readonly engineId: string;
  readonly role: EngineRole;
  /** Why it no longer serves; null while it serves. */
  readonly ended: Error | null;
  /** It is gone, and another engine may take its seat. */
  readonly dead: boolean;
  shutdown(): Promise<void>;
}

export interface EngineStarter<E> {
  /** `life`: counts the engines that this seat has had, from 1. */
  start(seat: Seat, life: number, mode: Mode): Promise<E>;
  connect(engine: E, others: readonly E[], fleet: FleetOptions): Promise<void>;
}

/** A seat and the engine that has it now. */
interface Place<E> {
  seat: Seat;
  engine: E;
}

/** Makes a connected engine ready to serve. */
type Prepare<E> = (engine: E, seat: Seat, replaced: E | null) => Promise<void>;

export class EnginePool<E extends PooledEngine = ThreadEngine> {
  readonly #starter: EngineStarter<E>;
  #fleet: FleetOptions;
  #places: Place<E>[];
  /** Cache of `all`; null after a change. */
  #all: readonly E[] | null = null;
  /** Number of engines that each seat name has had. Kept when a seat is removed, so that no id is used twice. */
  readonly #lives = new Map<string, number>();

  /** `first`: connected engines, in the order of the fleet's seats. */
  constructor(fleet: FleetOptions, first: readonly E[], starter: EngineStarter<E>) {
    this.#fleet = fleet;
    this.#starter = starter;
    this.#places = first.map((engine, i) => ({ seat: fleet.seats[i]!, engine }));
    for (const { name } of fleet.seats) this.#lives.set(name, 1);
  }

  /** The current seats, those of leaving engines included. */
  get fleet(): FleetOptions {
    return this.#fleet;
  }

  /** In the order of the seats, ended engines included. */
  get all(): readonly E[] {
    this.#all ??= this.#places.map(({ engine }) => engine);
    return this.#all;
  }

  get alive(): readonly E[] {
    return this.all.filter((engine) => !engine.dead);
  }

  /** The role's first engine that serves; if none does, its first. */
  first(role: EngineRole): E {
    const ofRole = this.all.filter((engine) => engine.role === role);
    return ofRole.find(({ ended }) => !ended) ?? ofRole[0]!;
  }

  /**
   * Calls all serving engines at once. An engine that ends meanwhile is omitted. Rejects with any other failure,
   * after all have answered.
   */
  async each<T>(call: (engine: E, seat: Seat) => Promise<T>): Promise<T[]> {
    const serving = this.#places.filter(({ engine }) => !engine.ended);
    const answers = await Promise.allSettled(serving.map(({ engine, seat }) => call(engine, seat)));
    return answers.flatMap((answer, i) => {
      if (answer.status === 'fulfilled') return [answer.value];
      // Its thread may know of its end before this one does.
      if (serving[i]!.engine.ended || answer.reason instanceof EngineDeadError) return [];
      throw answer.reason;
    });
  }

  /**
   * Replaces every dead engine for which `stays` is true when its turn comes, and returns how many. Rejects if one
   * cannot be started, after all others have been tried; nothing half-started is left running.
   */
  async replaceDead(
    mode: Mode,
    prepare: Prepare<E>,
    stays: (engine: E) => boolean = () => true,
  ): Promise<number> {
    let replaced = 0;
    const failures: unknown[] = [];
    for (const place of this.#places.filter(({ engine }) => engine.dead)) {
      if (!stays(place.engine)) continue;
      try {
        place.engine = await this.#joined(place.seat, this.#fleet, mode, prepare, place.engine);
        this.#all = null;
        replaced++;
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
    return replaced;
  }

  /** Starts an engine in a new seat. If that fails, it rejects, the fleet is unchanged and nothing is left running. */
  async add(wanted: Pick<Seat, 'name' | 'role' | 'roleset'>, mode: Mode, prepare: Prepare<E>): Promise<E> {
    const fleet = withSeat(this.#fleet, wanted);
    const seat = fleet.seats.find(({ name }) => name === wanted.name)!;
    const engine = await this.#joined(seat, fleet, mode, prepare, null);
    this.#fleet = fleet;
    const places = [...this.#places, { seat, engine }];
    this.#places = fleet.seats.map(({ name }) => places.find((place) => place.seat.name === name)!);
    this.#all = null;
    return engine;
  }

  /** Ends the engine and removes its seat. */
  async remove({ name }: Pick<Seat, 'name'>): Promise<void> {
    await this.#places.find(({ seat }) => seat.name === name)?.engine.shutdown();
    this.#places = this.#places.filter(({ seat }) => seat.name !== name);
    this.#all = null;
    this.#fleet = withoutSeat(this.#fleet, name);
  }

  async shutdown(): Promise<void> {
    await Promise.all(this.all.map((engine) => engine.shutdown()));
  }

  async #joined(
    seat: Seat,
    fleet: FleetOptions,
    mode: Mode,
    prepare: Prepare<E>,
    replaced: E | null,
  ): Promise<E> {
    const life = (this.#lives.get(seat.name) ?? 0) + 1;
    this.#lives.set(seat.name, life);
    const engine = await this.#starter.start(seat, life, mode);
    try {
      await this.#starter.connect(engine, this.alive, fleet);
      await prepare(engine, seat, replaced);
      return engine;
    } catch (error) {
      await engine.shutdown();
      throw error;
    }
  }
}
