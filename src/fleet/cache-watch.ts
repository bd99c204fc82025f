/** Who listens to the engines' prefix caches. The engines report only while somebody does. */
import type { EngineEvent } from '../host/engine-report.ts';
import type { CacheEventBatch } from './notices.ts';
import { ReportWatch } from './report-watch.ts';
import type { ThreadEngine } from './thread-engine.ts';

export class CacheWatch extends ReportWatch<CacheEventBatch> {
  /** It takes the place of one that ended, and what that one had cached is gone. */
  watchAnew(engine: ThreadEngine, atMs: number): void {
    this.watch(engine);
    this.tell({ engineId: engine.engineId, events: [{ kind: 'cleared' }], atMs });
  }

  protected ask(engine: ThreadEngine, wanted: boolean): void {
    engine.inspection.reportCacheEvents(wanted).catch(() => {});
  }

  protected newsOf({ engineId }: ThreadEngine, event: EngineEvent): CacheEventBatch | null {
    return event.kind === 'cache' ? { engineId, events: event.events, atMs: event.atMs } : null;
  }
}
