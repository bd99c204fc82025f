/**
 * A way to an engine's thread and back: typed calls, events, and how it ended. When the thread ends every open call is
 * rejected at once (comlink alone would leave them waiting for ever); one that is stuck is given up, which is the same to
 * everybody, and is noticed while it owes an answer. Knows nothing of requests.
 */
import type { Clock } from '../engine/types.ts';
import { engineEnded, fromWire } from '../errors.ts';
import type {
  EngineApi,
  EngineStart,
  EngineStarted,
  InspectionApi,
  LabApi,
  ServingApi,
} from '../host/engine-api.ts';
import type { EngineEvent } from '../host/engine-report.ts';
import { transfer, wrap } from '../host/rpc.ts';
import type { EngineThread, Platform } from '../platform/types.ts';
import { unlessSilent } from '../transport/deadlines.ts';
import { STUCK, STUCK_MS, StuckWatch } from './stuck-watch.ts';

export class EngineConnection {
  /** Calls reject with EngineDeadError when the engine ends before it answers. */
  readonly serving: ServingApi;
  readonly inspection: InspectionApi;
  readonly lab: LabApi;
  readonly #engineId: string;
  readonly #thread: EngineThread;
  readonly #clock: Clock;
  readonly #watch: StuckWatch;
  #death: Error | null = null;
  /** Why it cannot go on, told by the engine before its thread ends. */
  #cause: Error | null = null;
  readonly #deathListeners = new Set<(error: Error) => void>();
  readonly #eventListeners = new Set<(event: EngineEvent) => void>();

  private constructor(engineId: string, thread: EngineThread, clock: Clock) {
    this.#engineId = engineId;
    this.#thread = thread;
    this.#clock = clock;
    this.#watch = new StuckWatch(clock, () => this.answers());
    // All of its methods are asynchronous already: what comlink makes of them has the same type.
    const api = wrap(thread.port) as unknown as EngineApi;
    this.serving = this.#guarded(api.serving);
    this.inspection = this.#guarded(api.inspection);
    this.lab = this.#guarded(api.lab);
  }

  /** `attach` is given the connection before anything comes over it. Throws KvferryError, with no thread left running. */
  static async open(
    platform: Platform,
    start: EngineStart,
    clock: Clock,
    attach: (connection: EngineConnection) => void,
  ): Promise<EngineStarted> {
    const { engineId } = start.core;
    const thread = await platform.startEngineThread(engineId);
    const connection = new EngineConnection(engineId, thread, clock);
    thread.onExit((reason) => connection.#die(reason));
    const events = new MessageChannel();
    events.port1.addEventListener('message', (event) => connection.#receive(event.data as EngineEvent));
    events.port1.start();
    connection.onDeath(() => events.port1.close());
    attach(connection);
    try {
      return await connection.serving.start(start, transfer(events.port2, [events.port2]));
    } catch (error) {
      await connection.shutdown();
      throw error;
    }
  }

  /** Its thread is gone, or given up. */
  get dead(): boolean {
    return this.#death !== null;
  }

  /** Why it serves no more: its thread is gone, or it said that it cannot go on and soon will be. null: it serves. */
  get ended(): Error | null {
    return this.#death ?? this.#cause;
  }

  /** Runs at once when the thread is gone already. Returns how to listen no longer. */
  onDeath(listener: (error: Error) => void): () => void {
    if (this.#death) listener(this.#death);
    else this.#deathListeners.add(listener);
    return () => void this.#deathListeners.delete(listener);
  }

  /** Everything that the engine says, as it comes. */
  onEvent(listener: (event: EngineEvent) => void): () => void {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }

  /** Ends the engine cleanly; resolves when its thread is gone, or given up. Safe to call twice. */
  async shutdown(): Promise<void> {
    if (this.#death) return;
    const gone = new Promise<void>((resolve) => this.onDeath(() => resolve()));
    this.serving.shutdown().catch(() => {});
    await this.unlessStuck(gone);
  }

  /** What takes the thread no time: where it does not come, the thread is given up, at which it ends. */
  unlessStuck<T>(work: Promise<T>): Promise<T> {
    return unlessSilent(work, STUCK_MS, this.#clock, () => {
      this.#thread.abandon();
      this.#die(STUCK);
    });
  }

  /** Resolves when the thread answers, or is dead: one that is stuck is given up. */
  async answers(): Promise<void> {
    await this.unlessStuck(this.serving.releaseHolds([])).catch(() => {});
  }

  /** The engine owes more than the answer to a call, until `settle`: should its thread be stuck meanwhile, it is given up. */
  owe(): void {
    this.#watch.owe();
  }

  settle(): void {
    this.#watch.settle();
  }

  #guarded<T extends object>(api: T): T {
    const call = (name: PropertyKey, args: unknown[]): Promise<unknown> => {
      if (this.#death) return Promise.reject(this.#death);
      // Weights that are read or made, kernels that are compiled: a start may be busy for long.
      const watched = name !== 'start';
      if (watched) this.#watch.owe();
      return new Promise((resolve, reject) => {
        this.#deathListeners.add(reject);
        (Reflect.get(api, name) as (...args: unknown[]) => Promise<unknown>)(...args)
          .then(resolve, reject)
          .finally(() => {
            this.#deathListeners.delete(reject);
            this.#watch.heard();
            if (watched) this.#watch.settle();
          });
      });
    };
    return new Proxy({} as T, {
      get:
        (_, name) =>
        (...args: unknown[]) =>
          call(name, args),
    });
  }

  #receive(event: EngineEvent): void {
    this.#watch.heard();
    if (event.kind === 'dead') this.#cause = fromWire(event.error);
    for (const listener of this.#eventListeners) listener(event);
    if (event.kind === 'dead') void this.shutdown();
  }

  #die(reason: string): void {
    if (this.#death) return;
    this.#death = this.#cause ?? engineEnded(`engine ${this.#engineId}`, reason);
    this.#watch.end();
    for (const listener of this.#deathListeners) listener(this.#death);
    this.#deathListeners.clear();
  }
}
