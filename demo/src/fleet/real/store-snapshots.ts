/** The content of a real store, requested from its thread. Each snapshot fetches only what changed since the last one. */
import type { EngineCluster } from '../../../../src/fleet/cluster.ts';
import { MOST_CELLS, type StoreContent } from '../../../../src/simulate/live/view.ts';
import type { StoreCell } from '../../../../src/store/block-news.ts';
import { storeOccupancy } from '../../../../src/store/occupancy.ts';

export class StoreSnapshots {
  readonly #cluster: Pick<EngineCluster, 'storeBlocks' | 'storeStats'>;
  readonly #cells = new Map<number, StoreCell>();
  #revision = 0;

  constructor(cluster: Pick<EngineCluster, 'storeBlocks' | 'storeStats'>) {
    this.#cluster = cluster;
  }

  /** null: there is no store. */
  async take(): Promise<StoreContent | null> {
    const [news, stats] = await Promise.all([
      this.#cluster.storeBlocks(this.#revision),
      this.#cluster.storeStats(),
    ]);
    if (!news || !stats) return null;
    this.#revision = news.revision;
    if (news.whole) this.#cells.clear();
    for (const id of news.memory.gone) this.#cells.delete(id);
    for (const cell of news.memory.changed) this.#cells.set(cell.id, cell);
    const { slots, blocks, counters } = stats;
    const { lookups, hits, evicted } = counters;
    const pool = storeOccupancy(slots, this.#stored(), MOST_CELLS);
    return { slots, blocks, pool, lookups, hits, evicted, tiers: [] };
  }

  *#stored() {
    for (const { id, state } of this.#cells.values())
      yield { slot: id - 1, ready: state !== 'coming', readers: Number(state === 'read') };
  }
}
