/**
 * An engine in its thread: builds it, runs its loop, and serves requests. Wiring only: policy and kernels are in
 * other modules, read-only access is in inspection.ts, and experiments are in lab.ts.
 */
import type { EngineCoreConfig } from '../config/engine.ts';
import type { RefusedRequest } from '../engine/kv-connector.ts';
import type { EngineRequest } from '../engine/types.ts';
import { EngineDeadError, engineEnded, invariant, toWire } from '../errors.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { RemoteAddress } from '../transport/types.ts';
import { buildEngine, type EngineParts } from './build-engine.ts';
import { buildPolicy, type EnginePolicy } from './build-policy.ts';
import { CacheReport } from './cache-report.ts';
import type { EngineApi, EngineStart, EngineStarted, ServingApi } from './engine-api.ts';
import type { EngineEvent, EngineStats } from './engine-report.ts';
import { EngineSpans } from './engine-spans.ts';
import { EngineInspection, statsOf } from './inspection.ts';
import { EngineLab } from './lab.ts';
import { LoadReport } from './load-report.ts';
import type { HostDeps, RunningEngine } from './running-engine.ts';
import { StepLoop } from './step-loop.ts';

/** Milliseconds to wait at shutdown for work that the device does not finish. */
const MOST_SETTLING_MS = 2000;

/** Everything that a thread's entry exposes. */
export function hostEngine(deps: HostDeps): EngineApi {
  const cacheReport = new CacheReport();
  const loadReport = new LoadReport();
  const serving = new EngineHost(deps, cacheReport, loadReport);
  return {
    serving,
    inspection: new EngineInspection(serving, cacheReport, loadReport, deps.clock),
    lab: new EngineLab(serving, deps),
  };
}

class EngineHost implements ServingApi, RunningEngine {
  readonly #deps: HostDeps;
  readonly #cacheReport: CacheReport;
  readonly #loadReport: LoadReport;
  readonly #closing = new AbortController();
  #events: MessagePort | null = null;
  #parts: EngineParts | null = null;
  #policy: EnginePolicy | null = null;
  #spans = new EngineSpans('');
  #loop: StepLoop | null = null;
  /** Why the engine cannot continue. */
  #failure: Error | null = null;
  /** Set while the policy is being rebuilt; the loop must not step then. */
  #paused = false;

  constructor(deps: HostDeps, cacheReport: CacheReport, loadReport: LoadReport) {
    this.#deps = deps;
    this.#cacheReport = cacheReport;
    this.#loadReport = loadReport;
  }

  async start(start: EngineStart, events: MessagePort): Promise<EngineStarted> {
    const { platform, clock, nextTask } = this.#deps;
    this.#events = events;
    this.#spans = new EngineSpans(start.core.engineId);
    const parts = await buildEngine(platform, clock, start, this.#spans.add);
    this.#spans.take();
    this.#parts = parts;
    this.#buildPolicy(start.core);
    parts.gpu.lost.then((reason) => this.#fail(engineEnded(start.core.engineId, reason)));
    this.#loop = new StepLoop({
      core: () => (this.#paused ? null : (this.#policy?.core ?? null)),
      clock,
      nextTask,
      spans: this.#spans,
      cacheReport: this.#cacheReport,
      loadReport: this.#loadReport,
      send: (event) => this.#send(event),
      onFailure: (error) => this.#fail(error),
      signal: this.#closing.signal,
    });
    return parts.started;
  }

  async addPeer(peer: RemoteAddress, port: MessagePort, link: LinkSpec | null): Promise<void> {
    this.parts().transport.addPeer(port, peer, link);
  }

  async peerDied(engineId: string): Promise<void> {
    this.parts().transport.peerDied(engineId);
  }

  async addRequest(request: EngineRequest, sentMs: number): Promise<void> {
    try {
      this.policy().core.addRequest(request);
      this.#loop?.opened(request.requestId);
    } finally {
      this.#spans.submitted(request.requestId, sentMs, this.#deps.clock.now());
      // A refused request may still name a holder that must be told to free its blocks.
      this.wake();
    }
  }

  async abortRequest(requestId: string): Promise<void> {
    this.policy().core.abortRequest(requestId);
    this.wake();
  }

  async stopRequest(requestId: string): Promise<void> {
    this.policy().core.stopRequest(requestId);
    this.wake();
  }

  async refuseRequest(request: RefusedRequest): Promise<void> {
    this.policy().core.refuseRequest(request);
    this.wake();
  }

  async releaseHolds(requestIds: readonly string[] | 'all'): Promise<void> {
    const holds = this.policy().connector?.holds;
    if (!holds) return;
    const ids = requestIds === 'all' ? holds.list().map((hold) => hold.requestId) : requestIds;
    for (const id of ids) holds.release(id);
    this.wake();
  }

  async resetPrefixCache(): Promise<boolean> {
    const reset = this.policy().core.resetPrefixCache();
    this.#loop?.sendCacheEvents();
    return reset;
  }

  async drain(): Promise<void> {
    const { core } = this.policy();
    const { signal } = this.#closing;
    while (core.hasWork() && !signal.aborted) await this.#deps.clock.sleep(1, signal);
  }

  async reconfigure(config: EngineCoreConfig, link: LinkSpec | null): Promise<void> {
    await this.drain();
    const { core } = this.policy();
    core.inspect.checkIntegrity();
    this.#paused = true;
    try {
      const { usedBlocks } = core.inspect.stats();
      invariant(
        usedBlocks === 0,
        () => `${config.engineId} still uses ${usedBlocks} blocks after it drained`,
      );
      this.#buildPolicy(config);
      this.parts().transport.setLink(link);
    } finally {
      this.#paused = false;
      this.wake();
    }
  }

  async shutdown(): Promise<void> {
    this.#closing.abort();
    this.wake();
    const parts = this.#parts;
    parts?.transport.close();
    // The device first, so that a step under way fails instead of blocking the loop.
    parts?.runner.destroy();
    parts?.kv.destroy();
    parts?.gpu.destroy();
    await this.#loop?.ended;
    const settled = Promise.all([parts?.gpu.settled(), parts?.runner.kernelsSettled()]);
    await Promise.race([settled, this.#deps.clock.sleep(MOST_SETTLING_MS)]);
    this.#parts = null;
    this.#policy = null;
    this.#events?.close();
    this.#deps.exit();
  }

  parts(): EngineParts {
    if (!this.#parts) throw new EngineDeadError('the engine is not running: start it first');
    return this.#parts;
  }

  policy(): EnginePolicy {
    if (this.#failure) throw this.#failure;
    if (!this.#policy || this.#closing.signal.aborted)
      throw new EngineDeadError('the engine is not running: start it again');
    return this.#policy;
  }

  wake(): void {
    this.#loop?.wake();
  }

  #buildPolicy(config: EngineCoreConfig): void {
    const { clock } = this.#deps;
    this.#policy = buildPolicy(this.parts(), clock, config, (event) => this.#send(event), this.#spans);
    this.#cacheReport.coreIs(this.#policy.core);
  }

  #fail(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    this.#failure = error instanceof Error ? error : new EngineDeadError(String(error));
    this.#closing.abort();
    this.wake();
    this.#send({ kind: 'dead', error: toWire(error), stats: this.#lastStats() });
    this.#parts?.transport.close();
  }

  /** null: it has not started, or its state is what failed. */
  #lastStats(): EngineStats | null {
    try {
      return this.#parts && this.#policy && statsOf(this.#parts, this.#policy);
    } catch {
      return null;
    }
  }

  #send(event: EngineEvent): void {
    this.#events?.postMessage(event);
  }
}
