/** Polls the blocks of a cluster's engines and store on request, and reports changes. */
import type { Clock } from '../engine/types.ts';
import type { Cluster, EngineSnapshot } from '../fleet/types.ts';
import { sum } from '../sum.ts';
import type { BlockViews } from './block-views.ts';
import type { SessionEvent } from './events.ts';
import { SnapshotNews } from './snapshot-news.ts';
import type { StoreNews } from './store-news.ts';

/** Until a request that was sent to an engine has arrived. */
const SOON_MS = 1;

export class BlockPolls {
  readonly #cluster: Cluster;
  readonly #emit: (event: SessionEvent) => void;
  readonly #clock: Clock;
  readonly #originMs: number;
  readonly #views: BlockViews;
  readonly #engines: SnapshotNews;
  /** Loaded when there is a store. */
  #store: StoreNews | null = null;
  /** The last poll. */
  #polling: Promise<void> = Promise.resolve();
  /** Whether it still looks at engines. */
  #isPolling = false;
  #pollAgain = false;

  /** originMs: the shared clock's time that becomes 0. */
  constructor(
    cluster: Cluster,
    emit: (event: SessionEvent) => void,
    clock: Clock,
    originMs: number,
    views: BlockViews,
  ) {
    this.#cluster = cluster;
    this.#emit = emit;
    this.#clock = clock;
    this.#originMs = originMs;
    this.#views = views;
    this.#engines = new SnapshotNews((fact) => views.view(fact, originMs));
  }

  /** Reports all of this engine's blocks again. */
  restarted(engineId: string): void {
    this.#engines.restarted(engineId);
  }

  /** Reports blocks that changed. Calls during a poll share the next one. Never rejects. */
  poll(): Promise<void> {
    if (this.#isPolling) this.#pollAgain = true;
    else this.#polling = this.#pollAll();
    return this.#polling;
  }

  /** Polls when a request has reached its engine, so that its blocks are seen even while it computes only briefly. */
  pollSoon(): void {
    void this.#clock.sleep(SOON_MS).then(() => this.poll());
  }

  async #pollAll(): Promise<void> {
    this.#isPolling = true;
    do {
      this.#pollAgain = false;
      try {
        const snapshots = await this.#cluster.snapshot();
        this.#engines.keep(snapshots);
        for (const snapshot of snapshots) {
          for (const event of this.#engines.news(snapshot, this.#now())) this.#emit(event);
        }
        if (this.#cluster.settings.store) await this.#pollStore(snapshots);
      } catch {
        // An engine ended meanwhile; its notice reports that.
      }
    } while (this.#pollAgain);
    // At once, not when the promise has settled: a call in between would be lost.
    this.#isPolling = false;
  }

  async #pollStore(snapshots: readonly EngineSnapshot[]): Promise<void> {
    this.#store ??= new (await import('./store-news.ts')).StoreNews(
      this.#views,
      this.#cluster.settings.blockSize,
    );
    const store = this.#store;
    const [blocks, stats] = await Promise.all([
      this.#cluster.storeBlocks(store.revision),
      this.#cluster.storeStats(),
    ]);
    const hops = snapshots.map(({ stats: { store: counters } }) => counters?.twoHopBytes ?? 0);
    const twoHopBytes = sum(hops);
    for (const event of store.news(blocks && stats && { blocks, stats, twoHopBytes }, this.#now()))
      this.#emit(event);
  }

  #now(): number {
    return this.#clock.now() - this.#originMs;
  }
}
