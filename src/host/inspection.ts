/** The read-only part of an engine thread's interface. */
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { Clock } from '../engine/types.ts';
import type { EngineParts } from './build-engine.ts';
import type { EnginePolicy } from './build-policy.ts';
import type { CacheReport } from './cache-report.ts';
import type { InspectionApi } from './engine-api.ts';
import type { EngineBlocks, EngineStats } from './engine-report.ts';
import type { LoadReport } from './load-report.ts';
import type { RunningEngine } from './running-engine.ts';

export class EngineInspection implements InspectionApi {
  readonly #engine: RunningEngine;
  readonly #cacheReport: CacheReport;
  readonly #loadReport: LoadReport;
  readonly #clock: Clock;

  constructor(engine: RunningEngine, cacheReport: CacheReport, loadReport: LoadReport, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
    this.#cacheReport = cacheReport;
    this.#loadReport = loadReport;
  }

  async stats(): Promise<EngineStats> {
    return statsOf(this.#engine.parts(), this.#engine.policy());
  }

  async lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup> {
    return this.#engine.policy().core.inspect.lookup(tokenIds, cacheSalt);
  }

  async blocks(): Promise<EngineBlocks> {
    const { core } = this.#engine.policy();
    const slab = this.#engine.parts().transport.slab();
    return { numBlocks: core.inspect.stats().numBlocks, facts: core.inspect.blocks(), slab };
  }

  async readBlocks(blockIds: readonly number[]): Promise<Uint8Array[]> {
    const { kv } = this.#engine.parts();
    const copies: Uint8Array[] = [];
    for (const id of blockIds) copies.push(await kv.readBlock(id));
    return copies;
  }

  async checkIntegrity(): Promise<void> {
    this.#engine.policy().core.inspect.checkIntegrity();
  }

  async reportLoad(enabled: boolean): Promise<void> {
    this.#loadReport.setEnabled(enabled, this.#clock.now());
    this.#engine.wake();
  }

  async reportCacheEvents(to: number | null): Promise<void> {
    if (to === null) return this.#cacheReport.stop();
    this.#cacheReport.begin(to);
    this.#engine.wake();
  }
}

export function statsOf(
  { gpu, runner, transport }: EngineParts,
  { core, connector }: EnginePolicy,
): EngineStats {
  return {
    engineId: transport.identity.engineId,
    ...core.inspect.stats(),
    memory: { gpu: gpu.bufferBytes, shared: transport.sharedBytes },
    firstUseCompilations: runner.firstUseCompilations(),
    holdUse: connector?.holds?.use() ?? null,
    transfers: connector ? { ...connector.counters } : null,
    store: connector?.store ? { ...connector.store.counters } : null,
  };
}
