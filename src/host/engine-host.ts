/** An engine in its thread: builds it, runs its loop, and serves its typed interface. Wiring only; policy and kernels are elsewhere. */

import type { EngineCoreConfig } from '../config/engine.ts';
import type { EngineConnector, HeldCheck } from '../connector/types.ts';
import type { CacheLookup } from '../engine/cache-lookup.ts';
import type { EngineCore } from '../engine/engine-core.ts';
import type { BlockIds, EngineRequest } from '../engine/types.ts';
import { EngineDeadError, invariant, toWire } from '../errors.ts';
import type { EngineStats } from '../fleet/types.ts';
import { measureCeilings } from '../gpu/ceilings.ts';
import type { MeasuredKernels } from '../measure/profile.ts';
import type { TimingMode } from '../model/kernel-timing.ts';
import { systemClock } from '../platform/clock.ts';
import type { Platform } from '../platform/types.ts';
import { copyByHand, type HandCopy, type HandCopyPlan } from '../transport/by-hand.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { PeerTransport } from '../transport/transport.ts';
import type { BlockPair, RemoteAddress, TransferResult } from '../transport/types.ts';
import { buildEngine, type EngineParts } from './build-engine.ts';
import { buildPolicy } from './build-policy.ts';
import { CacheReport } from './cache-report.ts';
import { EngineSpans } from './engine-spans.ts';
import type { EngineApi, EngineBlocks, EngineEvent, EngineStart, EngineStarted } from './messages.ts';
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
  #connector: EngineConnector | null = null;
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

  async checkHeld(requestId: string, blockIds: BlockIds): Promise<HeldCheck> {
    return this.#connector?.holds?.check(requestId, blockIds) ?? { state: 'unknown', stray: null };
  }

  async releaseHolds(requestIds: readonly string[] | 'all'): Promise<void> {
    const holds = this.#connector?.holds;
    if (!holds) return;
    const ids = requestIds === 'all' ? holds.list().map((hold) => hold.requestId) : requestIds;
    for (const id of ids) holds.release(id);
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
    const connector = this.#connector;
    return {
      engineId: parts.transport.identity.engineId,
      ...this.#engine().stats(),
      memory: { gpu: parts.gpu.bufferBytes, shared: parts.transport.sharedBytes },
      firstUseCompilations: parts.runner.firstUseCompilations(),
      ...(connector?.costAware ? { costs: connector.costAware.costs() } : {}),
      holdUse: connector?.holds?.use() ?? null,
      transfers: connector ? { ...connector.counters } : null,
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
    const ended = this.#connector?.holds?.expireNow(direction) ?? 0;
    this.#loop?.wake();
    return ended;
  }

  async serveAnyBlock(): Promise<void> {
    this.#transport().setHandlers({ gate: () => ({ allow: true, finished: () => {} }) });
  }

  async measureRead(remote: RemoteAddress, pairs: readonly BlockPair[]): Promise<TransferResult> {
    return this.#transport().read({ remote, remoteRequestId: 'measure', requestId: 'measure', pairs });
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
    const { core, connector } = policy;
    this.#core = core;
    this.#connector = connector;
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
