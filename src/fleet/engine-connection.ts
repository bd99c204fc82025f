/**
 * The connection to an engine's thread: typed calls, events, and how the engine ended. If the thread ends, every open
 * call is rejected at once; comlink alone would leave them pending for ever. A thread that is stuck while it owes an
 * answer is abandoned, which has the same effect. Knows nothing of requests.
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
  /** Calls reject with EngineDeadError if the engine ends before it answers. */
  readonly serving: ServingApi;
  readonly inspection: InspectionApi;
  readonly lab: LabApi;
  readonly #engineId: string;
  readonly #thread: EngineThread;
  readonly #clock: Clock;
  readonly #watch: StuckWatch;
  #death: Error | null = null;
  /** Why the engine cannot continue, as it reported before its thread ends. */
  #cause: Error | null = null;
  readonly #deathListeners = new Set<(error: Error) => void>();
  readonly #eventListeners = new Set<(event: EngineEvent) => void>();

  private constructor(engineId: string, thread: EngineThread, clock: Clock) {
    this.#engineId = engineId;
    this.#thread = thread;
    this.#clock = clock;
    this.#watch = new StuckWatch(clock, () => this.answers());
    // All methods are asynchronous already, so comlink's proxy has the same type.
    const api = wrap(thread.port) as unknown as EngineApi;
    this.serving = this.#guarded(api.serving);
    this.inspection = this.#guarded(api.inspection);
    this.lab = this.#guarded(api.lab);
  }

  /**
   * `attach` receives the connection before any message arrives. Throws KvferryError; no thread is left running then.
   */
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

  /** Its thread is gone or abandoned. */
  get dead(): boolean {
    return this.#death !== null;
  }

  /**
   * Why it no longer serves: its thread is gone, or it reported that it cannot continue and its thread will end soon.
   * null: it serves.
   */
  get ended(): Error | null {
    return this.#death ?? this.#cause;
  }

  /** Calls the listener at once if the thread is already gone. Returns a function that removes the listener. */
  onDeath(listener: (error: Error) => void): () => void {
    if (this.#death) listener(this.#death);
    else this.#deathListeners.add(listener);
    return () => void this.#deathListeners.delete(listener);
  }

  /** Calls the listener with every event of the engine. Returns a function that removes it. */
  onEvent(listener: (event: EngineEvent) => void): () => void {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }

  /** Ends the engine cleanly. Resolves when its thread is gone or abandoned. Safe to call twice. */
  async shutdown(): Promise<void> {
    if (this.#death) return;
    const died = new Promise<void>((resolve) => this.onDeath(() => resolve()));
    this.serving.shutdown().catch(() => {});
    await this.unlessStuck(died);
  }

  /**
   * For work that takes the thread no time. If it is not done within STUCK_MS, the thread is abandoned, which ends
   * the work.
   */
  unlessStuck<T>(work: Promise<T>): Promise<T> {
    return unlessSilent(work, STUCK_MS, this.#clock, () => {
      this.#thread.abandon();
      this.#die(STUCK);
    });
  }

  /** Resolves when the thread has answered or is dead. A stuck thread is abandoned. */
  async answers(): Promise<void> {
    await this.unlessStuck(this.serving.releaseHolds([])).catch(() => {});
  }

  /**
   * Call when the engine owes something other than a call's answer, until settle(). If its thread is stuck meanwhile,
   * it is abandoned.
   */
  owe(): void {
    this.#watch.owe();
  }

  settle(): void {
    this.#watch.settle();
  }

  #guarded<T extends object>(api: T): T {
    const call = (name: PropertyKey, args: unknown[]): Promise<unknown> => {
      if (this.#death) return Promise.reject(this.#death);
      // A start may be busy for a long time: reading or generating weights, compiling kernels.
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
    this.#death = this.#cause ?? engineEnded(this.#engineId, reason);
    this.#watch.end();
    for (const listener of this.#deathListeners) listener(this.#death);
    this.#deathListeners.clear();
  }
}
