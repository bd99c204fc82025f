/**
 * An engine without a device, as the router's EngineClient: the real engine core and the real connector, whose steps
 * take the time that a cost model gives. It steps only after something happened to it.
 */

import { STORE_ADDRESS } from '../../config/connectors.ts';
import type { EngineCoreConfig } from '../../config/engine.ts';
import type { EngineConnector } from '../../connector/types.ts';
import type { BlockHasher } from '../../engine/block-hash.ts';
import { EngineCore, type EngineCoreDeps } from '../../engine/engine-core.ts';
import type { CacheLookup } from '../../engine/inspect/cache-lookup.ts';
import type { EngineRequest } from '../../engine/types.ts';
import { engineEnded, InternalError, RequestError } from '../../errors.ts';
import { FaultyClock } from '../../faults/clock.ts';
import type { Member } from '../../fleet/membership.ts';
import type { Seat } from '../../fleet/seats.ts';
import type { SpanSink } from '../../measure/spans/spans.ts';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';
import type { OutputStream } from '../../router/output-stream.ts';
import type { ClaimPrefix } from '../../transport/prefix-claim.ts';
import type { RemoteAddress, TransferResult } from '../../transport/types.ts';
import type { Timer } from '../clock.ts';
import type { TransportNet } from '../network/transport.ts';
import type { Answers } from './answers.ts';
import { connectorOf } from './engine-connector.ts';
import { EngineTrace } from './engine-trace.ts';
import { EngineMeter } from './meter.ts';
import { type EngineNews, Outbox } from './outbox.ts';
import { PoolShare } from './pool-share.ts';
import { EngineSteps, type StepDeps } from './steps.ts';

export interface SimulatedEngineDeps extends StepDeps, Omit<EngineNews, 'onOutputs'> {
  net: TransportNet;
  answers: Answers;
  /** See Outbox. */
  onlyEnds: boolean;
  claim: ClaimPrefix;
  hasher: BlockHasher;
  /** Bytes of a KV block in the pool, whichever group it belongs to. */
  blockBytes: number;
  /** Milliseconds that its start-up took, which is over. */
  startMs: number;
  /** Queues the engine for attention, once everything of this moment has happened. */
  touch: (engine: SimulatedEngine) => void;
  onTransfer: (requestId: string, result: TransferResult) => void;
  /** Called with what the engine does; null: nothing is reported. */
  onSpan: SpanSink | null;
  /** Called when it has ended. */
  onEnd: () => void;
  /** Called when a request may have entered its next stage; null if nobody listens. */
  onStage: ((said: 'pull' | 'transfer' | 'outputs') => void) | null;
}

export class SimulatedEngine implements EngineClient, Member {
  readonly engineId: string;
  /** Name of its seat; a replacement has the same. */
  readonly name: string;
  readonly role: EngineRole;
  readonly roleset: string;
  readonly combined: boolean;
  readonly address: RemoteAddress;
  readonly core: EngineCore;
  readonly connector: EngineConnector | null;
  readonly meter: EngineMeter;
  ended: Error | null = null;
  /** Set while the engine is queued for attention; maintained by the event loop. */
  isTouched = false;
  /** Milliseconds that its start-up took. */
  readonly startMs: number;
  /** Not modelled: only their sum is, as startMs. */
  readonly started = { loadMs: 0, compileMs: 0 };
  readonly #deps: SimulatedEngineDeps;
  readonly #trace: EngineTrace | null;
  /** The clock that its policies see, which faults may move. */
  readonly #clock: FaultyClock;
  readonly #outbox: Outbox;
  readonly #steps: EngineSteps;
  readonly #maxModelLen: number;
  /** Timer for the next time at which it has something to do of its own accord. */
  #due: Timer | null = null;

  constructor(config: EngineCoreConfig, seat: Seat, deps: SimulatedEngineDeps) {
    const { engineId, host, port } = config;
    this.#deps = deps;
    this.engineId = engineId;
    this.name = seat.name;
    this.startMs = deps.startMs;
    this.#maxModelLen = config.scheduler.maxModelLen;
    this.role = seat.role;
    this.roleset = seat.roleset;
    this.combined = seat.combined;
    this.address = { engineId, host, port };
    const { clock, hasher, costs } = deps;
    this.#clock = new FaultyClock(clock);
    const trace = deps.onSpan && new EngineTrace(engineId, deps.onSpan);
    this.#trace = trace;
    this.connector = this.#connect(config);
    const costAware = this.connector?.costAware;
    const coreDeps: EngineCoreDeps = {
      config,
      connector: this.connector,
      clock: this.#clock,
      hasher,
      // A listener to every stage may look into blocks too.
      withoutBlockFacts: !trace,
      executor: { execute: () => Promise.reject(new InternalError('a simulated engine steps in halves')) },
    };
    if (trace) coreDeps.onActivity = trace.activity;
    if (costAware) coreDeps.onBatch = (batch, ms) => costAware.stepRan(batch.requests, ms);
    this.core = new EngineCore(coreDeps);
    this.meter = new EngineMeter(engineId, clock, this.core.inspect);
    const { onLoad, onCache, onlyEnds, onStage } = deps;
    const { replyMs } = costs;
    const onOutputs = onStage && (() => onStage('outputs'));
    this.#outbox = new Outbox(this.core, { clock, replyMs, onlyEnds, onLoad, onCache, onOutputs });
    const { maxNumSeqs } = config.scheduler;
    this.#steps = new EngineSteps(
      {
        core: this.core,
        meter: this.meter,
        outbox: this.#outbox,
        place: { role: seat.role, maxNumSeqs },
        poolShare: new PoolShare(config.cache),
        trace,
        dueMs: () => this.#dueMs(),
        touch: () => this.#touch(),
      },
      deps,
    );
  }

  get load(): { inFlight: number } {
    return { inFlight: this.#outbox.size };
  }

  async submit(request: EngineRequest): Promise<OutputStream> {
    const { requestId } = request;
    const { clock, costs, answers } = this.#deps;
    if (this.ended) throw this.ended;
    if (this.#outbox.has(requestId))
      throw new RequestError(`request ${requestId} has not ended at ${this.engineId}: choose another id`);
    const forcedTokenIds = answers.of(request, this.#maxModelLen);
    const stream = this.#outbox.open(requestId, forcedTokenIds);
    const sentMs = clock.now();
    const arrivalMs = request.arrivalMs ?? sentMs;
    try {
      if (costs.submitMs > 0) await clock.sleep(costs.submitMs);
      if (this.ended) throw this.ended;
      this.catchUp();
      this.#trace?.submitted(requestId, sentMs, clock.now());
      const isForced = request.sampling.forcedTokenIds === forcedTokenIds;
      const sampling = isForced ? request.sampling : Object.assign({}, request.sampling, { forcedTokenIds });
      const { promptTokenIds, kvTransferParams, cacheSalt } = request;
      this.core.addRequest({
        requestId,
        promptTokenIds,
        sampling,
        kvTransferParams,
        cacheSalt,
        arrivalMs,
      });
    } catch (error) {
      this.#outbox.drop(requestId);
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
    this.#outbox.drop(requestId);
    return this.#call(() => this.core.abortRequest(requestId));
  }

  release(requestIds: readonly string[]): Promise<void> {
    return this.#call(() => {
      for (const id of requestIds) this.connector?.holds?.release(id);
    });
  }

  async lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup> {
    if (this.ended) throw this.ended;
    this.catchUp();
    return this.core.inspect.lookup(tokenIds, cacheSalt);
  }

  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keep: number): Promise<void> {
    return this.#call(() => this.core.forgetPrefix(tokenIds, cacheSalt, keep));
  }

  /** Requests that have not ended, and requests held for a reader; none of an engine that has ended. */
  async remaining(): Promise<{ requests: number; holds: number }> {
    if (this.ended) return { requests: 0, holds: 0 };
    this.catchUp();
    const { running, waiting, waitingForRemote, heldRequests } = this.core.inspect.stats();
    return { requests: running + waiting + waitingForRemote, holds: heldRequests };
  }

  /** Faults that can be injected, as into an engine in a thread. */
  readonly lab = {
    loseDevice: async (): Promise<void> => this.end('the device was lost'),
    exhaustDevice: async (): Promise<void> => this.end('the device was out of memory'),
    moveClock: async (change: Parameters<FaultyClock['move']>[0]): Promise<void> => {
      this.catchUp();
      this.#clock.move(change);
      this.#touch();
    },
    expireHolds: async (direction: EngineRole): Promise<number> => {
      this.catchUp();
      const ended = this.connector?.holds?.expireNow(direction) ?? 0;
      this.#touch();
      return ended;
    },
  };

  async shutdown(): Promise<void> {
    this.end('it was shut down');
  }

  get dead(): boolean {
    return this.ended !== null;
  }

  /** Ends it as a thread ends: all that it had is gone, and whatever waits for it fails. */
  end(why: string): void {
    if (this.ended) return;
    this.catchUp();
    const error = engineEnded(this.engineId, why);
    this.ended = error;
    this.#steps.cancel();
    this.#disarm();
    this.meter.ends();
    this.#deps.net.leave(this.engineId);
    this.#outbox.fail(error);
    this.#deps.onEnd();
  }

  /** Whether a step is under way. */
  get busy(): boolean {
    return this.#steps.underWay;
  }

  /**
   * Milliseconds until its device is done with the current piece of a step, as on a machine of its own; 0 if there is
   * none.
   */
  get deviceBusyMs(): number {
    return this.#steps.deviceBusyMs;
  }

  /** Begins a step if one would do something. */
  beginStep(): void {
    this.catchUp();
    if (this.ended || this.#steps.underWay) return;
    this.#disarm();
    while (!this.#steps.underWay && this.core.poll()) this.#steps.begin();
    if (this.#steps.underWay) return;
    this.#outbox.report(true);
    const dueMs = this.#dueMs();
    if (dueMs !== null) this.#due = this.#deps.clock.at(dueMs, () => this.#touch());
  }

  /** Brings it up to the current time; see EngineSteps. */
  catchUp(): void {
    this.#steps.catchUp();
  }

  #connect(config: EngineCoreConfig): EngineConnector | null {
    const { net, claim, blockBytes, onTransfer, onStage } = this.#deps;
    return connectorOf(config, {
      ...{ net, claim, blockBytes, clock: this.#clock },
      onPull: () => onStage?.('pull'),
      onStored: (info) => this.#trace?.stored(info),
      onTransfer: (info) => {
        const { requestId, remote, result } = info;
        this.#trace?.transferred(info);
        const from = remote.engineId === STORE_ADDRESS.engineId ? 'loads' : 'transfers';
        this.#outbox.transferred(requestId, result, from);
        onTransfer(requestId, result);
        onStage?.('transfer');
        // The engine reports the transfer's end next, whatever its outcome.
        this.#touch();
      },
    });
  }

  /** Takes as long on its way as a request, so that calls and requests keep their order. */
  async #call(done: () => void): Promise<void> {
    const { clock, costs } = this.#deps;
    if (costs.submitMs > 0) await clock.sleep(costs.submitMs);
    if (this.ended) return;
    this.catchUp();
    done();
    this.#touch();
  }

  /** When it next has something to do of its own accord, on the simulation's clock, ms; null: never. */
  #dueMs(): number | null {
    const dueMs = this.core.dueMs();
    return dueMs === null ? null : this.#clock.inner(dueMs);
  }

  #touch(): void {
    this.#deps.touch(this);
  }

  #disarm(): void {
    if (this.#due) this.#deps.clock.cancel(this.#due);
    this.#due = null;
  }
}
