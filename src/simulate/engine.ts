/**
 * An engine without a device, as the router's EngineClient: the real engine core and the real connector, whose steps take
 * the time that a cost model says. Steps when something happened to it, never by itself.
 */
import type { EngineCoreConfig } from '../config/engine.ts';
import { createConnector } from '../connector/registry.ts';
import type { EngineConnector } from '../connector/types.ts';
import type { BlockHasher } from '../engine/block-hash.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import { EngineCore } from '../engine/engine-core.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { EngineRequest, RequestOutput, SampledToken, ScheduledBatch } from '../engine/types.ts';
import { EngineDeadError, InternalError, RequestError } from '../errors.ts';
import type { Seat } from '../fleet/seats.ts';
import { CacheReport } from '../host/cache-report.ts';
import { LoadReport } from '../host/load-report.ts';
import type { EngineClient, EngineRole } from '../router/engine-client.ts';
import { OutputStream } from '../router/output-stream.ts';
import type { RemoteAddress, TransferResult } from '../transport/types.ts';
import type { Answers } from './answers.ts';
import type { Timer, VirtualClock } from './clock.ts';
import { type SimulationCosts, type StepShape, shapeOf } from './costs/types.ts';
import { EngineMeter } from './meter.ts';
import type { Resource } from './resources.ts';
import { type SimulatedNet, SimulatedTransport } from './transport.ts';

export interface SimulatedEngineDeps {
  clock: VirtualClock;
  costs: SimulationCosts;
  net: SimulatedNet;
  /** What all engines compute on together; null: each has its own. */
  machine: Resource | null;
  hasher: BlockHasher;
  answers: Answers;
  /** Bytes of a KV block, whichever group has it. */
  blockBytes: number;
  /** It is to be looked after when all that happens now has happened. */
  touch: (engineId: string) => void;
  /** Whom to tell; null costs nothing. */
  onLoad: ((load: EngineLoad) => void) | null;
  onCache: ((events: readonly CacheEvent[], atMs: number) => void) | null;
  onTransfer: (requestId: string, result: TransferResult) => void;
}

export class SimulatedEngine implements EngineClient {
  readonly engineId: string;
  readonly role: EngineRole;
  readonly roleset: string;
  readonly combined: boolean;
  readonly address: RemoteAddress;
  readonly core: EngineCore;
  readonly connector: EngineConnector | null;
  readonly meter: EngineMeter;
  ended: Error | null = null;
  readonly #deps: SimulatedEngineDeps;
  readonly #config: EngineCoreConfig;
  readonly #streams = new Map<string, OutputStream>();
  readonly #answers = new Map<string, (index: number) => number>();
  readonly #loads = new LoadReport();
  readonly #caches = new CacheReport();
  #stepping: { cancel(): void } | null = null;
  /** When it will have something to do by itself. */
  #due: Timer | null = null;

  constructor(config: EngineCoreConfig, seat: Seat, deps: SimulatedEngineDeps) {
    const { engineId, host, port, cache } = config;
    this.#deps = deps;
    this.#config = config;
    this.engineId = engineId;
    this.role = seat.role;
    this.roleset = seat.roleset;
    this.combined = seat.combined;
    this.address = { engineId, host, port };
    const { clock, net, hasher } = deps;
    const { blockSize } = cache;
    const blockBytes = cache.groups.map(() => deps.blockBytes);
    const identity = { engineId, host, port, compatibilityHash: 'simulated', blockSize, blockBytes };
    const transport = new SimulatedTransport(identity, net);
    this.connector =
      config.connector &&
      createConnector(config.connector, {
        ...{ engine: config, transport, clock },
        onHoldDropped() {},
        onPull() {},
        onChunk() {},
        onTransfer: ({ requestId, result }) => {
          this.#streams.get(requestId)?.transfers.push(result);
          deps.onTransfer(requestId, result);
          // Its end is reported next, however it came about.
          this.#touch();
        },
      });
    const costAware = this.connector?.costAware;
    this.core = new EngineCore({
      ...{ config, connector: this.connector, clock, hasher },
      executor: { execute: () => Promise.reject(new InternalError('a simulated engine steps in halves')) },
      ...(costAware ? { onBatch: (batch, ms) => costAware.stepRan(batch.requests, ms) } : {}),
    });
    this.meter = new EngineMeter(engineId, clock, () => this.core.inspect.load());
    this.#caches.coreIs(this.core);
    this.#caches.want(deps.onCache !== null);
    this.#loads.want(deps.onLoad !== null);
  }

  get load(): { inFlight: number } {
    return { inFlight: this.#streams.size };
  }

  async submit(request: EngineRequest): Promise<OutputStream> {
    const { requestId } = request;
    const { clock, costs, answers } = this.#deps;
    if (this.ended) throw this.ended;
    if (this.#streams.has(requestId))
      throw new RequestError(`request ${requestId} has not ended at ${this.engineId}: choose another id`);
    const stream = new OutputStream(requestId);
    this.#streams.set(requestId, stream);
    const arrivalMs = request.arrivalMs ?? clock.now();
    try {
      if (costs.submitMs > 0) await clock.sleep(costs.submitMs);
      if (this.ended) throw this.ended;
      this.core.addRequest({ ...request, arrivalMs });
      this.#answers.set(requestId, answers.of(request));
    } catch (error) {
      this.#streams.delete(requestId);
      throw error;
    } finally {
      this.#touch();
    }
    return stream;
  }

  stop(requestId: string): Promise<void> {
    return this.#call(() => this.core.stopRequest(requestId));
  }

  abort(requestId: string): Promise<void> {
    this.#streams.delete(requestId);
    return this.#call(() => this.core.abortRequest(requestId));
  }

  release(requestIds: readonly string[]): Promise<void> {
    return this.#call(() => {
      for (const id of requestIds) this.connector?.holds?.release(id);
    });
  }

  async lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup> {
    if (this.ended) throw this.ended;
    return this.core.inspect.lookup(tokenIds, cacheSalt);
  }

  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keep: number): Promise<void> {
    return this.#call(() => this.core.forgetPrefix(tokenIds, cacheSalt, keep));
  }

  /** As a thread that ends: all that it had is gone, and whoever waits for it is told. */
  end(why: string): void {
    if (this.ended) return;
    const error = new EngineDeadError(`${this.engineId} ended: ${why}`);
    this.ended = error;
    this.#stepping?.cancel();
    this.#disarm();
    this.meter.ends();
    this.#deps.net.leave(this.engineId);
    for (const stream of this.#streams.values()) stream.fail(error);
    this.#streams.clear();
    this.#deps.clock.onStir();
  }

  /** It steps, or would if it were let. */
  get busy(): boolean {
    return this.#stepping !== null;
  }

  /** Lets it begin a step if one would do something. */
  look(): void {
    if (this.ended || this.#stepping) return;
    this.#disarm();
    while (!this.#stepping && this.core.poll()) this.#begin();
    if (this.#stepping) return;
    this.#tell(true);
    const dueMs = this.core.dueMs();
    if (dueMs !== null) this.#due = this.#deps.clock.at(dueMs, () => this.#touch());
  }

  #begin(): void {
    const { clock, costs, machine } = this.#deps;
    const batch = this.core.beginStep();
    if (batch.requests.length === 0) {
      this.#end(batch, null);
      return;
    }
    const shape = shapeOf(batch);
    const { cache, scheduler } = this.#config;
    const place = { poolTokens: (cache.numBlocks - 1) * cache.blockSize, maxNumSeqs: scheduler.maxNumSeqs };
    const ms = costs.stepMs(shape, place);
    this.meter.stepBegins(shape);
    const done = (): void => {
      this.#stepping = null;
      this.#end(batch, shape);
      this.#touch();
    };
    if (machine) this.#stepping = machine.begin(ms, done);
    else {
      const timer = clock.after(ms, done);
      this.#stepping = {
        cancel() {
          timer.run = null;
        },
      };
    }
  }

  /** `shape`: null where nothing ran. */
  #end(batch: ScheduledBatch, shape: StepShape | null): void {
    const outputs = this.core.endStep(batch, this.#sample(batch));
    const atMs = this.#deps.clock.now();
    if (shape) this.meter.stepEnds(outputs);
    this.#loads.add(outputs, atMs);
    for (const output of outputs) this.#deliver(output, atMs);
    this.#tell(false);
  }

  #sample({ requests }: ScheduledBatch): SampledToken[] {
    return requests.flatMap(({ requestId, sample }) => {
      if (!sample) return [];
      const tokenId = this.#answers.get(requestId)!(sample.outputIndex);
      return [{ requestId, tokenId, logitsDigest: '', logits: null }];
    });
  }

  #deliver(output: RequestOutput, atMs: number): void {
    const { requestId, finish } = output;
    const stream = this.#streams.get(requestId);
    if (finish) {
      this.#streams.delete(requestId);
      this.#answers.delete(requestId);
    }
    if (!stream) return;
    const { clock, costs } = this.#deps;
    const push = (): void => {
      stream.push(output, atMs);
      clock.onStir();
    };
    if (costs.replyMs > 0) clock.after(costs.replyMs, push);
    else push();
  }

  /** What a router is told after steps. */
  #tell(idle: boolean): void {
    const { onLoad, onCache, clock } = this.#deps;
    if (onCache) {
      const events = this.#caches.take();
      if (events.length > 0) onCache(events, clock.now());
    }
    const load = onLoad && this.#loads.take(() => this.core.inspect.load(), clock.now(), idle);
    if (load) onLoad?.(load);
  }

  /** On its way as long as a request is, so that what is asked keeps its order. */
  async #call(done: () => void): Promise<void> {
    const { clock, costs } = this.#deps;
    if (costs.submitMs > 0) await clock.sleep(costs.submitMs);
    if (this.ended) return;
    done();
    this.#touch();
  }

  #touch(): void {
    this.#deps.touch(this.engineId);
  }

  #disarm(): void {
    if (this.#due) this.#due.run = null;
    this.#due = null;
  }
}
