/** Distributes the engines' prefix cache events. Engines report them only while there is a listener. */
import type { EngineEvent } from '../host/engine-report.ts';
import type { CacheEventBatch } from './notices.ts';
import { ReportWatch } from './report-watch.ts';
import type { ThreadEngine } from './thread-engine.ts';

export class CacheWatch extends ReportWatch<CacheEventBatch> {
  /**
   * Call for an engine that joined later. A replacement's cache is empty, so listeners are told that it was cleared.
   */
  watchReplacement(engine: ThreadEngine, atMs: number): void {
    this.watch(engine);
    this.report({ engineId: engine.engineId, events: [{ kind: 'cleared' }], atMs });
  }

  protected setReporting(engine: ThreadEngine, enabled: boolean): void {
    engine.inspection.reportCacheEvents(enabled).catch(() => {});
  }

  protected newsOf({ engineId }: ThreadEngine, event: EngineEvent): CacheEventBatch | null {
    return event.kind === 'cache' ? { engineId, events: event.events, atMs: event.atMs } : null;
  }
}
