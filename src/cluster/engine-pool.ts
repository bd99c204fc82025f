/** The engines of a cluster: started side by side, connected with each other, taken in turn, replaced where they ended. */
import type { Platform } from '../platform/types.ts';
import { connect, EngineHandle } from './engine-handle.ts';
import type { EngineApi } from './messages.ts';
import { engineStart, ROLES } from './options.ts';
import type { Remote } from './rpc.ts';
import type { ClusterOptions } from './types.ts';

type Role = EngineHandle['role'];

export class EnginePool {
  readonly #engines: EngineHandle[];
  #next = { prefill: 0, decode: 0 };

  private constructor(engines: EngineHandle[]) {
    this.#engines = engines;
  }

  /** Throws KvferryError, with nothing left running. */
  static async start(platform: Platform, options: ClusterOptions): Promise<EnginePool> {
    const started = await Promise.allSettled(
      ROLES.map((role) => EngineHandle.start(platform, engineStart(options, role, options.mode), role)),
    );
    const engines = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const pool = new EnginePool(engines);
    try {
      for (const result of started) if (result.status === 'rejected') throw result.reason;
      for (const [i, engine] of engines.entries()) await connect(engine, engines.slice(i + 1));
      return pool;
    } catch (error) {
      await pool.shutdown();
      throw error;
    }
  }

  get all(): readonly EngineHandle[] {
    return this.#engines;
  }

  get alive(): EngineHandle[] {
    return this.#engines.filter((engine) => !engine.dead);
  }

  /** Independent round robin, as in vLLM's proxy, among those that are alive if there are any. */
  pick(role: Role): EngineHandle {
    const all = this.#engines.filter((engine) => engine.role === role);
    const alive = all.filter((engine) => !engine.ending);
    const engines = alive.length > 0 ? alive : all;
    return engines[this.#next[role]++ % engines.length]!;
  }

  /** Calls all at once. Rejects when one is dead. */
  each<T>(invoke: (api: Remote<EngineApi>, engine: EngineHandle) => Promise<T>): Promise<T[]> {
    return Promise.all(this.#engines.map((engine) => engine.call((api) => invoke(api, engine))));
  }

  /** Puts a new engine, which `make` starts, in the place of each that ended; returns how many. */
  async replaceDead(make: (role: Role) => Promise<EngineHandle>): Promise<number> {
    const dead = [...this.#engines.entries()].filter(([, engine]) => engine.dead);
    for (const [i, { role }] of dead) {
      const engine = await make(role);
      await connect(engine, this.alive);
      this.#engines[i] = engine;
    }
    return dead.length;
  }

  async shutdown(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.shutdown()));
  }
}
