/**
 * An engine in a thread of its own, as the router's EngineClient, with what is needed to start, watch and measure it.
 */
import { STORE_ADDRESS } from '../config/connectors.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { Clock, EngineRequest } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { EngineStart, EngineStarted, InspectionApi, LabApi, ServingApi } from '../host/engine-api.ts';
import type { EngineEvent } from '../host/engine-report.ts';
import { transfer } from '../host/rpc.ts';
import { type RawSpan, routerSpan } from '../measure/spans/spans.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineClient, EngineRole, RouterWork } from '../router/engine-client.ts';
import { OutputStream } from '../router/output-stream.ts';
import { type EngineWire, plainWire } from '../transport/channel.ts';
import type { RemoteAddress } from '../transport/types.ts';
import { EngineConnection } from './engine-connection.ts';
import { type FleetOptions, linkBetween, type Seat } from './seats.ts';

/** An engine's place in its fleet. */
type EngineSeat = Pick<Seat, 'name' | 'role' | 'roleset' | 'combined'>;

export class ThreadEngine implements EngineClient {
  readonly engineId: string;
  /** The seat's name, which a replacement keeps. */
  readonly name: string;
  readonly role: EngineRole;
  readonly roleset: string;
  readonly combined: boolean;
  readonly address: RemoteAddress;
  started!: EngineStarted;
  /** Milliseconds from its thread's start to readiness. */
  startMs = 0;
  /** Number of messages with spans received. */
  spanMessages = 0;
  #connection!: EngineConnection;
  readonly #clock: Clock;
  readonly #streams = new Map<string, OutputStream>();
  readonly #spanListeners = new Set<(span: RawSpan) => void>();

  private constructor({ engineId, host, port }: EngineStart['core'], seat: EngineSeat, clock: Clock) {
    this.engineId = engineId;
    this.name = seat.name;
    this.role = seat.role;
    this.roleset = seat.roleset;
    this.combined = seat.combined;
    this.address = { engineId, host, port };
    this.#clock = clock;
  }

  /** Throws KvferryError; no thread is left running then. */
  static async start(
    platform: Platform,
    start: EngineStart,
    seat: EngineSeat,
    clock: Clock,
  ): Promise<ThreadEngine> {
    const engine = new ThreadEngine(start.core, seat, clock);
    const begunMs = clock.now();
    engine.started = await EngineConnection.open(platform, start, clock, (connection) => {
      engine.#connection = connection;
      connection.onEvent((event) => engine.#receive(event));
      connection.onDeath((error) => engine.#failAll(error));
    });
    engine.startMs = clock.now() - begunMs;
    return engine;
  }

  get serving(): ServingApi {
    return this.#connection.serving;
  }

  get inspection(): InspectionApi {
    return this.#connection.inspection;
  }

  get lab(): LabApi {
    return this.#connection.lab;
  }

  /** Its thread is gone or abandoned. */
  get dead(): boolean {
    return this.#connection.dead;
  }

  get ended(): Error | null {
    return this.#connection.ended;
  }

  get load(): EngineClient['load'] {
    return { inFlight: this.#streams.size };
  }

  /** Returns a function that removes the listener. */
  onDeath(listener: (error: Error) => void): () => void {
    return this.#connection.onDeath(listener);
  }

  /** Calls the listener with every event of the engine. Returns a function that removes it. */
  onEvent(listener: (event: EngineEvent) => void): () => void {
    return this.#connection.onEvent(listener);
  }

  /** The engine's own spans, and those of the router's work for its requests. */
  onSpan(listener: (span: RawSpan) => void): () => void {
    this.#spanListeners.add(listener);
    return () => this.#spanListeners.delete(listener);
  }

  async submit(request: EngineRequest, work?: RouterWork): Promise<OutputStream> {
    const { requestId } = request;
    if (this.#streams.has(requestId))
      throw new RequestError(`request ${requestId} has not ended at ${this.engineId}: choose another id`);
    const stream = new OutputStream(requestId);
    this.#streams.set(requestId, stream);
    this.#connection.owe();
    try {
      const sentMs = this.#clock.now();
      if (work) this.#emitSpan(routerSpan(work.name, requestId, work.sinceMs, sentMs));
      const arrivalMs = request.arrivalMs ?? sentMs;
      await this.serving.addRequest({ ...request, arrivalMs }, sentMs);
    } catch (error) {
      this.#close(requestId);
      throw error;
    }
    return stream;
  }

  async stop(requestId: string): Promise<void> {
    await this.serving.stopRequest(requestId).catch(() => {});
  }

  async abort(requestId: string): Promise<void> {
    this.#close(requestId);
    await this.serving.abortRequest(requestId).catch(() => {});
  }

  async release(requestIds: readonly string[]): Promise<void> {
    await this.serving.releaseHolds(requestIds).catch(() => {});
  }

  lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup> {
    return this.inspection.lookup(tokenIds, cacheSalt);
  }

  /**
   * From all callers: requests that have not ended, and ended ones whose blocks are held for a reader. Zeros if the
   * engine has ended; an engine whose thread is stuck counts as ended.
   */
  async remaining(): Promise<{ requests: number; holds: number }> {
    const stats = await this.#connection.unlessStuck(this.inspection.stats()).catch(() => null);
    if (!stats) return { requests: 0, holds: 0 };
    const { running, waiting, waitingForRemote, heldRequests } = stats;
    return { requests: running + waiting + waitingForRemote, holds: heldRequests };
  }

  async forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keep: number): Promise<void> {
    if (!this.dead) await this.lab.forgetPrefix(tokenIds, cacheSalt, keep);
  }

  /** Resolves when its thread has answered or is dead. A stuck thread is abandoned. */
  async answers(): Promise<void> {
    await this.#connection.answers();
  }

  /** Ends the engine cleanly. Resolves when its thread is gone or abandoned. Safe to call twice. */
  async shutdown(): Promise<void> {
    await this.#connection.shutdown();
  }

  #receive(event: EngineEvent): void {
    switch (event.kind) {
      case 'outputs':
        for (const output of event.outputs) {
          const stream = this.#streams.get(output.requestId);
          if (output.finish) this.#close(output.requestId);
          stream?.push(output, event.atMs);
        }
        break;
      case 'transfer':
        this.#streams
          .get(event.requestId)
          ?.[event.remoteEngineId === STORE_ADDRESS.engineId ? 'loads' : 'transfers'].push(event.result);
        break;
      case 'spans':
        this.spanMessages++;
        for (const span of event.spans) this.#emitSpan(span);
        break;
      case 'dead':
        if (this.ended) this.#failAll(this.ended);
    }
  }

  /** The thread has delivered what it owed, or nobody waits for it. */
  #close(requestId: string): void {
    if (this.#streams.delete(requestId)) this.#connection.settle();
  }

  #emitSpan(span: RawSpan): void {
    for (const listener of this.#spanListeners) listener(span);
  }

  #failAll(error: Error): void {
    for (const [requestId, stream] of this.#streams) {
      stream.fail(error);
      this.#close(requestId);
    }
  }
}

/** Connects the engine with each of the others over the link between them. If one dies, the other is told. */
export async function connect(
  engine: ThreadEngine,
  others: readonly ThreadEngine[],
  wire: EngineWire = plainWire,
  fleet: Pick<FleetOptions, 'links'> = { links: [] },
): Promise<void> {
  for (const other of others) {
    const link = linkBetween(fleet, engine.name, other.name);
    const [port1, port2] = wire(engine.address, other.address);
    await Promise.all([
      engine.serving.addPeer(other.address, transfer(port1, [port1]), link),
      other.serving.addPeer(engine.address, transfer(port2, [port2]), link),
    ]);
    const ends: (() => void)[] = [];
    const notifyDeath = (dead: ThreadEngine, to: ThreadEngine) =>
      dead.onDeath(() => {
        // The surviving engine must not keep listeners for engines that come and go.
        for (const end of ends) end();
        to.serving.peerDied(dead.engineId).catch(() => {});
      });
    ends.push(notifyDeath(engine, other), notifyDeath(other, engine));
  }
}
