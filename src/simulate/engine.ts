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
import type { ClaimPrefix } from '../transport/prefix-claim.ts';
import type { RemoteAddress, TransferResult } from '../transport/types.ts';
import type { Answers } from './answers.ts';
import type { Timer, VirtualClock } from './clock.ts';
import { type SimulationCosts, type StepPlace, type StepShape, shapeOf } from './costs/types.ts';
import { DecodeSteps } from './decode-steps.ts';
import { EngineMeter } from './meter.ts';
import type { Resource } from './resources.ts';
import { type SimulatedNet, SimulatedTransport } from './transport.ts';

/** Fewer steps are not worth it. */
const LEAST_RUN = 2;

type DecodedRequest = Parameters<Parameters<EngineCore['decode']>[1]>[0];

export interface SimulatedEngineDeps {
  clock: VirtualClock;
  costs: SimulationCosts;
  net: SimulatedNet;
  /** What all engines compute on together; null: each has its own. */
  machine: Resource | null;
  /** Decode steps in which nothing can change are taken at once. */
  runs: boolean;
  claim: ClaimPrefix;
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
  /** Steps that are taken at once, from the one under way on; null: none are. */
  #run: DecodeSteps | null = null;
  /** Tokens that nobody waits for: they go out with their request's last. */
  readonly #kept = new Map<string, SampledToken[]>();
  /** The step under way, as long as one is. */
  #step = { startMs: 0, ms: 0 };
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
        ...{ engine: config, transport, clock, claim: deps.claim },
        onHoldDropped() {},
        onPull() {},
        onChunk() {},
        onStored() {},
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
      this.catchUp();
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
    this.#kept.delete(requestId);
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

  /** As a thread that ends: all that it had is gone, and whoever waits for it is told. */
  end(why: string): void {
    if (this.ended) return;
    this.catchUp();
    this.#tellKept();
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

  /** Until the piece of a step that its device has is done; as on a machine of its own. */
  get deviceBusyMs(): number {
    const { pieceMs } = this.#deps.costs;
    this.catchUp();
    if (!this.#stepping || pieceMs === null) return 0;
    const { startMs, ms } = this.#step;
    const ranMs = this.#deps.clock.now() - startMs;
    const pieceEndMs = (Math.floor(ranMs / pieceMs) + 1) * pieceMs;
    return Math.max(0, Math.min(pieceEndMs, ms) - ranMs);
  }

  /** Lets it begin a step if one would do something. */
  look(): void {
    this.catchUp();
    if (this.ended || this.#stepping) return;
    this.#disarm();
    while (!this.#stepping && this.core.poll()) this.#begin();
    if (this.#stepping) return;
    this.#tell(true);
    const dueMs = this.core.dueMs();
    if (dueMs !== null) this.#due = this.#deps.clock.at(dueMs, () => this.#touch());
  }

  /** Decode steps that are over by now are taken, and the one under way is a step like any other from here on. */
  catchUp(): void {
    const run = this.#run;
    if (!run) return;
    const { clock } = this.#deps;
    this.#run = null;
    this.#stepping?.cancel();
    this.#stepping = null;
    const endMs = this.#take(run, run.stepsUntil(clock.now()));
    const batch = this.core.beginStep();
    const shape = shapeOf(batch);
    this.meter.stepBegins(shape, endMs);
    this.#step = { startMs: endMs, ms: run.stepMs(shape) };
    this.#stepUntil(endMs + this.#step.ms, batch, shape);
  }

  #begin(): void {
    const { clock, costs, machine } = this.#deps;
    const startMs = clock.now();
    if (this.#beginRun(startMs)) return;
    const batch = this.core.beginStep();
    if (batch.requests.length === 0) {
      this.#end(batch, null);
      return;
    }
    const shape = shapeOf(batch);
    const ms = costs.stepMs(shape, this.#place);
    this.#step = { startMs, ms };
    this.meter.stepBegins(shape, startMs);
    if (!machine) {
      this.#stepUntil(startMs + ms, batch, shape);
      return;
    }
    this.#stepping = machine.begin(ms, () => this.#stepDone(batch, shape));
  }

  #stepUntil(endMs: number, batch: ScheduledBatch, shape: StepShape): void {
    const timer = this.#deps.clock.at(endMs, () => this.#stepDone(batch, shape));
    this.#stepping = {
      cancel() {
        timer.run = null;
      },
    };
  }

  #stepDone(batch: ScheduledBatch, shape: StepShape): void {
    this.#stepping = null;
    this.#end(batch, shape);
    this.#touch();
  }

  /** False: a step is to be taken by itself. */
  #beginRun(startMs: number): boolean {
    const { runs, costs, clock } = this.#deps;
    const most = runs ? this.core.decodeSteps : 0;
    if (most < LEAST_RUN) return false;
    const run = new DecodeSteps(startMs, decodeShape(this.core), most, this.core.dueMs(), (shape) =>
      costs.stepMs(shape, this.#place),
    );
    if (run.count < LEAST_RUN) return false;
    this.#run = run;
    this.meter.runBegins();
    const timer = clock.at(run.endMs, () => {
      this.#run = null;
      this.#stepping = null;
      this.#take(run, run.count);
      this.meter.runEnds();
      this.#touch();
    });
    this.#stepping = {
      cancel() {
        timer.run = null;
      },
    };
    return true;
  }

  /** Returns when the last of them ended. */
  #take(run: DecodeSteps, count: number): number {
    if (count === 0) return run.startMs;
    const { onLoad, onCache } = this.#deps;
    const told = onLoad !== null || onCache !== null;
    let atMs = run.startMs;
    const next = run.walk();
    const { requests } = this.core.decodeShape();
    const onStep = (): void => {
      this.meter.stepTaken(requests, atMs);
      atMs = next();
      if (!told) return;
      this.#loads.tokens(requests, atMs);
      this.#tell(false, atMs);
    };
    this.core.decode(count, (request) => this.#keep(request), onStep);
    return atMs;
  }

  #keep({ requestId, numOutputTokens }: DecodedRequest): number {
    const tokenId = this.#answers.get(requestId)!(numOutputTokens);
    const token = { requestId, tokenId, logitsDigest: '', logits: null };
    const kept = this.#kept.get(requestId);
    if (kept) kept.push(token);
    else this.#kept.set(requestId, [token]);
    return tokenId;
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
    const kept = this.#kept.get(requestId);
    if (kept) this.#kept.delete(requestId);
    const whole = kept ? { ...output, tokens: [...kept, ...output.tokens] } : output;
    if (!stream) return;
    const { clock, costs } = this.#deps;
    const push = (): void => {
      stream.push(whole, atMs);
      clock.onStir();
    };
    if (costs.replyMs > 0) clock.after(costs.replyMs, push);
    else push();
  }

  /** What a router is told after steps. */
  #tell(idle: boolean, atMs: number = this.#deps.clock.now()): void {
    const { onLoad, onCache } = this.#deps;
    if (onCache) {
      const events = this.#caches.take();
      if (events.length > 0) onCache(events, atMs);
    }
    const load = onLoad && this.#loads.take(() => this.core.inspect.load(), atMs, idle);
    if (load) onLoad?.(load);
  }

  get #place(): StepPlace {
    const { cache, scheduler } = this.#config;
    return { poolTokens: (cache.numBlocks - 1) * cache.blockSize, maxNumSeqs: scheduler.maxNumSeqs };
  }

  /** On its way as long as a request is, so that what is asked keeps its order. */
  async #call(done: () => void): Promise<void> {
    const { clock, costs } = this.#deps;
    if (costs.submitMs > 0) await clock.sleep(costs.submitMs);
    if (this.ended) return;
    this.catchUp();
    done();
    this.#touch();
  }

  /** The engine ends, and what it generated was on its way. */
  #tellKept(): void {
    const nothing = { prompt: null, finish: null, times: { arrivalMs: 0, queuedMs: 0, scheduledMs: null } };
    for (const [requestId, tokens] of this.#kept)
      this.#streams.get(requestId)?.push({ requestId, tokens, ...nothing }, this.#deps.clock.now());
    this.#kept.clear();
  }

  #touch(): void {
    this.#deps.touch(this.engineId);
  }

  #disarm(): void {
    if (this.#due) this.#due.run = null;
    this.#due = null;
  }
}

function decodeShape(core: EngineCore): StepShape {
  const { requests, context } = core.decodeShape();
  return { decodes: requests, decodeContext: context, prefills: 0, prefillTokens: 0, prefillContext: 0 };
}
