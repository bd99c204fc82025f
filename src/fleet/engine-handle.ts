/**
 * An engine as the router's thread sees it: typed calls, streams of outputs, and an end. When the thread dies, every
 * open call and stream is rejected at once (comlink alone would leave them waiting for ever).
 */
import type { RemoteAddress } from '../engine/kv-connector.ts';
import type { EngineRequest } from '../engine/types.ts';
import { EngineDeadError, fromWire } from '../errors.ts';
import type { EngineApi, EngineEvent, EngineStart, EngineStarted } from '../host/messages.ts';
import { type Remote, transfer, wrap } from '../host/rpc.ts';
import { type RawSpan, routerSpan } from '../measure/spans.ts';
import { systemClock } from '../platform/clock.ts';
import type { Platform } from '../platform/types.ts';
import { OutputStream } from '../router/output-stream.ts';
import type { TransferResult } from '../transport/types.ts';

export interface ObservedTransfer {
  remoteEngineId: string;
  result: TransferResult;
}

/** What the router did before it sent a request, and since when. */
export interface RouterWork {
  name: 'accept' | 'hand over';
  sinceMs: number;
}

export class EngineHandle {
  readonly engineId: string;
  readonly address: RemoteAddress;
  readonly role: 'prefill' | 'decode';
  started!: EngineStarted;
  /** It takes the place of one that ended: what that one held is gone. */
  revived = false;
  /** Messages with spans that came. */
  spanMessages = 0;
  #api: Remote<EngineApi>;
  #death: Error | null = null;
  /** Why it cannot go on, told by the engine before its thread ends. */
  #cause: Error | null = null;
  #deathListeners = new Set<(error: Error) => void>();
  #streams = new Map<string, OutputStream>();
  #transfers = new Map<string, ObservedTransfer[]>();
  #spanListeners = new Set<(span: RawSpan) => void>();
  #eventListeners = new Set<(event: EngineEvent) => void>();
  #waitingListeners = new Set<(requestId: string, reason: string) => void>();

  private constructor(core: EngineStart['core'], role: 'prefill' | 'decode', port: MessagePort) {
    this.engineId = core.engineId;
    this.address = { engineId: core.engineId, host: core.host, port: core.port };
    this.role = role;
    this.#api = wrap<EngineApi>(port);
  }

  static async start(
    platform: Platform,
    start: EngineStart,
    role: 'prefill' | 'decode',
  ): Promise<EngineHandle> {
    const thread = await platform.startEngineThread(start.core.engineId);
    const handle = new EngineHandle(start.core, role, thread.port);
    thread.onExit((reason) => handle.#die(reason));
    const events = new MessageChannel();
    events.port1.addEventListener('message', (event) => handle.#receive(event.data as EngineEvent));
    events.port1.start();
    handle.onDeath(() => events.port1.close());
    try {
      handle.started = await handle.call((api) => api.start(start, transfer(events.port2, [events.port2])));
    } catch (error) {
      await handle.shutdown();
      throw error;
    }
    return handle;
  }

  get dead(): boolean {
    return this.#death !== null;
  }

  /** Requests that have not ended. */
  get inFlight(): number {
    return this.#streams.size;
  }

  /** Its thread is gone, or it said that it cannot go on and soon will be. */
  get ending(): boolean {
    return this.#death !== null || this.#cause !== null;
  }

  /** A call that rejects with EngineDeadError when the engine ends before it answers. */
  call<T>(invoke: (api: Remote<EngineApi>) => Promise<T>): Promise<T> {
    if (this.#death) return Promise.reject(this.#death);
    return new Promise((resolve, reject) => {
      this.#deathListeners.add(reject);
      invoke(this.#api)
        .then(resolve, reject)
        .finally(() => this.#deathListeners.delete(reject));
    });
  }

  /** Runs at once when the engine is dead already. */
  onDeath(listener: (error: Error) => void): void {
    if (this.#death) listener(this.#death);
    else this.#deathListeners.add(listener);
  }

  onSpan(listener: (span: RawSpan) => void): () => void {
    this.#spanListeners.add(listener);
    return () => this.#spanListeners.delete(listener);
  }

  /** Everything that the engine says, as it comes. */
  onEvent(listener: (event: EngineEvent) => void): () => void {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }

  onWaiting(listener: (requestId: string, reason: string) => void): void {
    this.#waitingListeners.add(listener);
  }

  /**
   * Rejects with RequestError when the engine refuses the request. `work` is told as a span.
   */
  async submit(request: EngineRequest, work?: RouterWork): Promise<OutputStream> {
    const stream = new OutputStream(request.requestId);
    this.#streams.set(request.requestId, stream);
    try {
      const sentMs = systemClock.now();
      if (work) this.#tellSpan(routerSpan(work.name, request.requestId, work.sinceMs, sentMs));
      const arrivalMs = request.arrivalMs ?? sentMs;
      await this.call((api) => api.addRequest({ ...request, arrivalMs }, sentMs));
    } catch (error) {
      this.#streams.delete(request.requestId);
      throw error;
    }
    return stream;
  }

  /** Ends the request where it is; its last output still comes through the stream. */
  async stop(requestId: string): Promise<void> {
    if (!this.#death) await this.call((api) => api.stopRequest(requestId)).catch(() => {});
  }

  /** Forgets the stream; safe for an ended request or a dead engine. */
  async abort(requestId: string): Promise<void> {
    this.#streams.delete(requestId);
    if (!this.#death) await this.call((api) => api.abortRequest(requestId)).catch(() => {});
  }

  /** The transfers that the request caused so far; forgets them. */
  takeTransfers(requestId: string): ObservedTransfer[] {
    const list = this.#transfers.get(requestId) ?? [];
    this.#transfers.delete(requestId);
    return list;
  }

  /** Ends the engine cleanly; resolves when its thread is gone. Safe to call twice. */
  async shutdown(): Promise<void> {
    if (this.#death) return;
    const gone = new Promise<void>((resolve) => this.onDeath(() => resolve()));
    this.call((api) => api.shutdown()).catch(() => {});
    await gone;
  }

  #receive(event: EngineEvent): void {
    for (const listener of this.#eventListeners) listener(event);
    switch (event.kind) {
      case 'outputs':
        for (const output of event.outputs) {
          const stream = this.#streams.get(output.requestId);
          if (output.finish) this.#streams.delete(output.requestId);
          stream?.push(output, event.atMs);
        }
        break;
      case 'transfer': {
        // One that ends after its request was given up: nobody will ask for it.
        if (!this.#streams.has(event.requestId)) break;
        const list = this.#transfers.get(event.requestId) ?? [];
        list.push({ remoteEngineId: event.remoteEngineId, result: event.result });
        this.#transfers.set(event.requestId, list);
        break;
      }
      case 'spans':
        this.spanMessages++;
        for (const span of event.spans) this.#tellSpan(span);
        break;
      case 'waiting':
        for (const listener of this.#waitingListeners) listener(event.requestId, event.reason);
        break;
      case 'dead':
        this.#cause = fromWire(event.error);
        this.#fail(this.#cause);
        this.shutdown();
        break;
    }
  }

  #tellSpan(span: RawSpan): void {
    for (const listener of this.#spanListeners) listener(span);
  }

  #die(reason: string): void {
    if (this.#death) return;
    const error = this.#cause ?? new EngineDeadError(`engine ${this.engineId} ended: ${reason}`);
    this.#death = error;
    this.#fail(error);
    for (const listener of this.#deathListeners) listener(error);
    this.#deathListeners.clear();
  }

  #fail(error: Error): void {
    for (const stream of this.#streams.values()) stream.fail(error);
    this.#streams.clear();
  }
}

/** A port to each of the others; each one's death is told to the other. */
export async function connect(engine: EngineHandle, others: readonly EngineHandle[]): Promise<void> {
  for (const other of others) {
    const { port1, port2 } = new MessageChannel();
    await Promise.all([
      engine.call((api) => api.addPeer(other.address, transfer(port1, [port1]))),
      other.call((api) => api.addPeer(engine.address, transfer(port2, [port2]))),
    ]);
    for (const [a, b] of [
      [engine, other],
      [other, engine],
    ] as const) {
      a.onDeath(() => {
        if (!b.dead) b.call((api) => api.peerDied(a.engineId)).catch(() => {});
      });
    }
  }
}
