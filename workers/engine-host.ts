/** An engine in its thread: builds it, runs its loop, and serves its typed interface. Wiring only; policy and kernels are elsewhere. */
import type {
  EngineApi,
  EngineBlocks,
  EngineEvent,
  EngineStart,
  EngineStarted,
} from '../src/cluster/messages.ts';
import type { EngineStats } from '../src/cluster/types.ts';
import type { EngineCoreConfig } from '../src/config/engine.ts';
import type { CostAwarePolicy } from '../src/connector/cost-aware.ts';
import type { NixlWorkerSide } from '../src/connector/worker-side.ts';
import type { CacheLookup } from '../src/engine/cache-lookup.ts';
import type { EngineCore } from '../src/engine/engine-core.ts';
import type { BlockPair, RemoteAddress } from '../src/engine/kv-connector.ts';
import { claimPrefix } from '../src/engine/prefix-claim.ts';
import type { EngineRequest } from '../src/engine/types.ts';
import { EngineDeadError, invariant, toWire } from '../src/errors.ts';
import { measureCeilings } from '../src/gpu/ceilings.ts';
import type { MeasuredKernels } from '../src/measure/profile.ts';
import type { TimingMode } from '../src/model/kernel-timing.ts';
import { systemClock } from '../src/platform/clock.ts';
import type { Platform } from '../src/platform/types.ts';
import { copyByHand, type HandCopy, type HandCopyPlan } from '../src/transport/by-hand.ts';
import type { LinkSpec } from '../src/transport/link.ts';
import type { PeerTransport } from '../src/transport/transport.ts';
import type { TransferResult } from '../src/transport/types.ts';
import { buildEngine, type EngineParts } from './build-engine.ts';
import { buildPolicy } from './build-policy.ts';
import { CacheReport } from './cache-report.ts';
import { EngineSpans } from './engine-spans.ts';
import { StepLoop } from './step-loop.ts';

/** A device that does not end what it was asked keeps its thread no longer. */
const MOST_SETTLING_MS = 2000;

export class EngineHost implements EngineApi {
  readonly #platform: Platform;
  /** Ends the thread; called once the answer to shutdown() had time to leave. */
  readonly #exit: () => void;
  #events: MessagePort | null = null;
  #parts: EngineParts | null = null;
  #core: EngineCore | null = null;
  #worker: NixlWorkerSide | null = null;
  #costAware: CostAwarePolicy | null = null;
  #spans = new EngineSpans('');
  readonly #cacheReport = new CacheReport();
  #closing = new AbortController();
  #loop: StepLoop | null = null;
  /** Why the engine cannot go on. */
  #failure: Error | null = null;
  /** Set while the policy is being rebuilt: the loop must not step. */
  #paused = false;

  constructor(platform: Platform, exit: () => void) {
    this.#platform = platform;
    this.#exit = exit;
  }

  async start(start: EngineStart, events: MessagePort): Promise<EngineStarted> {
    this.#events = events;
    this.#spans = new EngineSpans(start.core.engineId);
    const parts = await buildEngine(this.#platform, start, this.#spans.add);
    this.#spans.take();
    this.#parts = parts;
    this.#buildPolicy(start.core);
    parts.gpu.lost.then((reason) =>
      this.#fail(new EngineDeadError(`the device of ${start.core.engineId} was lost: ${reason}`)),
    );
    this.#loop = this.#startLoop();
    return parts.started;
  }

  async addPeer(peer: RemoteAddress, port: MessagePort): Promise<void> {
    this.#transport().addPeer(port, peer);
  }

  async peerDied(engineId: string): Promise<void> {
    this.#transport().peerDied(engineId);
  }

  async addRequest(request: EngineRequest, sentMs: number): Promise<void> {
    try {
      this.#engine().addRequest(request);
      this.#loop?.opened(request.requestId);
    } finally {
      this.#spans.submitted(request.requestId, sentMs, systemClock.now());
      // A refused request may still have a holder to tell that its blocks are free.
      this.#loop?.wake();
    }
  }

  async abortRequest(requestId: string): Promise<void> {
    this.#engine().abortRequest(requestId);
    this.#loop?.wake();
  }

  async stopRequest(requestId: string): Promise<void> {
    this.#engine().stopRequest(requestId);
    this.#loop?.wake();
  }

  async releaseHolds(requestIds: readonly string[] | 'all'): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    const ids = requestIds === 'all' ? worker.holds().map((hold) => hold.requestId) : requestIds;
    for (const id of ids) worker.releaseHold(id);
    this.#loop?.wake();
  }

  async drain(): Promise<void> {
    const engine = this.#engine();
    while (engine.hasWork() && !this.#closing.signal.aborted)
      await systemClock.sleep(1, this.#closing.signal);
  }

  async reconfigure(core: EngineCoreConfig, link: LinkSpec | null): Promise<void> {
    await this.drain();
    const engine = this.#engine();
    engine.checkIntegrity();
    this.#paused = true;
    try {
      invariant(
        engine.stats().usedBlocks === 0,
        () => `${core.engineId} still uses ${engine.stats().usedBlocks} blocks after it drained`,
      );
      this.#buildPolicy(core);
      this.#transport().setLink(link);
    } finally {
      this.#paused = false;
      this.#loop?.wake();
    }
  }

  async forgetPrefix(
    tokenIds: readonly number[],
    cacheSalt: string | null,
    keepTokens: number,
  ): Promise<void> {
    this.#engine().forgetPrefix(tokenIds, cacheSalt, keepTokens);
  }

  async stats(): Promise<EngineStats> {
    const parts = this.#built();
    return {
      engineId: parts.transport.identity.engineId,
      ...this.#engine().stats(),
      memory: { gpu: parts.gpu.bufferBytes, shared: parts.transport.sharedBytes },
      firstUseCompilations: parts.runner.firstUseCompilations(),
      ...(this.#costAware ? { costs: this.#costAware.costs() } : {}),
      holdUse: this.#worker && {
        prefill: this.#worker.holdUse('prefill'),
        decode: this.#worker.holdUse('decode'),
      },
      transfers: this.#worker ? { ...this.#worker.counters } : null,
    };
  }

  async lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup> {
    return this.#engine().lookup(tokenIds, cacheSalt);
  }

  async resetPrefixCache(): Promise<boolean> {
    const reset = this.#engine().resetPrefixCache();
    this.#loop?.sendCacheEvents();
    return reset;
  }

  async reportCacheEvents(wanted: boolean): Promise<void> {
    this.#cacheReport.want(wanted);
  }

  async checkIntegrity(): Promise<void> {
    this.#engine().checkIntegrity();
  }

  async waitingReason(requestId: string): Promise<string | null> {
    return this.#engine().waitingReason(requestId);
  }

  async readBlocks(blockIds: readonly number[]): Promise<Uint8Array[]> {
    const { kv } = this.#built();
    const copies: Uint8Array[] = [];
    for (const id of blockIds) copies.push(await kv.readBlock(id));
    return copies;
  }

  async blocks(): Promise<EngineBlocks> {
    const core = this.#engine();
    return {
      numBlocks: core.stats().numBlocks,
      facts: core.blocks(),
      slab: this.#transport().slab(),
    };
  }

  async expireHolds(direction: 'prefill' | 'decode'): Promise<number> {
    const ended = this.#worker?.expireHolds(direction) ?? 0;
    this.#loop?.wake();
    return ended;
  }

  async serveAnyBlock(): Promise<void> {
    this.#transport().setHandlers({ gate: () => ({ allow: true, finished: () => {} }) });
  }

  async measureRead(remote: RemoteAddress, pairs: readonly BlockPair[]): Promise<TransferResult> {
    const nothing = claimPrefix(false)([], 0, null);
    const claim = { held: nothing, prompt: nothing };
    const id = 'measure';
    return this.#transport().read({ remote, remoteRequestId: id, claim, requestId: id, pairs });
  }

  async copyByHand(plan: HandCopyPlan): Promise<HandCopy[]> {
    return copyByHand(this.#built().kv, plan, systemClock);
  }

  async setTiming(mode: TimingMode | null): Promise<boolean> {
    return this.#built().runner.setTiming(mode);
  }

  async takeKernelTimes(): Promise<MeasuredKernels> {
    const { runner, gpu, transport } = this.#built();
    const times = runner.takeKernelTimes();
    const ceilings = await measureCeilings(gpu, this.#platform.readShader, systemClock);
    return { engineId: transport.identity.engineId, ...times, ceilings };
  }

  async loseDevice(): Promise<void> {
    this.#built().gpu.destroy();
  }

  async shutdown(): Promise<void> {
    this.#closing.abort();
    this.#loop?.wake();
    this.#parts?.transport.close();
    // The device first: a step under way then ends with an error instead of holding the loop.
    this.#parts?.runner.destroy();
    this.#parts?.kv.destroy();
    this.#parts?.gpu.destroy();
    await this.#loop?.ended;
    await Promise.race([this.#parts?.gpu.settled(), systemClock.sleep(MOST_SETTLING_MS)]);
    this.#parts = null;
    this.#core = null;
    this.#events?.close();
    this.#exit();
  }

  #buildPolicy(config: EngineCoreConfig): void {
    const policy = buildPolicy(this.#built(), config, (event) => this.#send(event), this.#spans);
    const { core, worker, costAware } = policy;
    this.#core = core;
    this.#worker = worker;
    this.#costAware = costAware;
    this.#cacheReport.coreIs(core);
  }

  #startLoop(): StepLoop {
    return new StepLoop({
      core: () => (this.#paused ? null : this.#core),
      spans: this.#spans,
      cacheReport: this.#cacheReport,
      send: (event) => this.#send(event),
      onFailure: (error) => this.#fail(error),
      signal: this.#closing.signal,
    });
  }

  #fail(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    this.#failure = error instanceof Error ? error : new EngineDeadError(String(error));
    this.#closing.abort();
    this.#loop?.wake();
    this.#send({ kind: 'dead', error: toWire(error) });
    this.#parts?.transport.close();
  }

  #send(event: EngineEvent): void {
    this.#events?.postMessage(event);
  }

  #built(): EngineParts {
    if (!this.#parts) throw new EngineDeadError('the engine is not running: start it first');
    return this.#parts;
  }

  #engine(): EngineCore {
    if (this.#failure) throw this.#failure;
    if (!this.#core || this.#closing.signal.aborted)
      throw new EngineDeadError('the engine is not running: start it anew');
    return this.#core;
  }

  #transport(): PeerTransport {
    return this.#built().transport;
  }
}
