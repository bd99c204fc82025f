/** Changes of a store's tiers and figures since they were last reported. Only changes are examined. */
import type { StoreBlocks } from '../store/block-news.ts';
import type { StoreStats } from '../store/stats.ts';
import type { BlockViews } from './block-views.ts';
import { BlocksByHash } from './blocks-by-hash.ts';
import type { SessionEvent, StoreFigures } from './events.ts';
import { FolderCells } from './folder-cells.ts';
import { TierNews } from './tier-news.ts';

export interface StoreSnapshot {
  blocks: StoreBlocks;
  stats: StoreStats;
  /** Of all engines since they were last configured. */
  twoHopBytes: number;
}

export class StoreNews {
  readonly #contents: BlocksByHash;
  readonly #memory: TierNews;
  readonly #folder: TierNews;
  /** Assigns cells to the folder's blocks. */
  readonly #cells = new FolderCells();
  #revision = 0;
  #figures = 'null';

  constructor(views: BlockViews, blockSize: number) {
    this.#contents = new BlocksByHash(views, blockSize);
    this.#memory = new TierNews('memory', this.#contents);
    this.#folder = new TierNews('folder', this.#contents);
  }

  /** Revision of the last look; the next look needs only later changes. */
  get revision(): number {
    return this.#revision;
  }

  /** `snapshot`: null if there is no store any more. */
  news(snapshot: StoreSnapshot | null, atMs: number): SessionEvent[] {
    if (!snapshot) return this.#changed(null) ? [{ kind: 'store', atMs, figures: null }] : [];
    this.#take(snapshot.blocks);
    const learned = this.#contents.refresh();
    for (const tier of [this.#memory, this.#folder]) tier.learned(learned);
    const events = this.#memory.news(snapshot.stats.slots, atMs);
    if (snapshot.blocks.folder) events.push(...this.#folder.news(this.#cells.size, atMs));
    const figures = figuresOf(snapshot);
    if (this.#changed(figures)) events.unshift({ kind: 'store', atMs, figures });
    return events;
  }

  #take({ revision, whole, memory, folder }: StoreBlocks): void {
    this.#revision = revision;
    if (whole) {
      this.#memory.clear();
      this.#cells.clear();
      this.#folder.clear();
    }
    for (const id of memory.gone) this.#memory.delete(id);
    for (const cell of memory.changed) this.#memory.set(cell);
    if (!folder) return;
    const { filled, freed } = this.#cells.take(folder);
    for (const id of freed) this.#folder.delete(id);
    for (const cell of filled) this.#folder.set(cell);
  }

  #changed(figures: StoreFigures | null): boolean {
    const text = JSON.stringify(figures);
    if (text === this.#figures) return false;
    this.#figures = text;
    return true;
  }
}

function figuresOf({ stats, blocks, twoHopBytes }: StoreSnapshot): StoreFigures {
  const { slots, blockBytes, counters, folder } = stats;
  const { lookups, hits, stored, evicted } = counters;
  return {
    ...{ slots, blockBytes, blocks: stats.blocks, lookups, hits, stored, evicted, twoHopBytes },
    queues: blocks.queues && { ...blocks.queues },
    folder: folder && {
      ...{ blocks: folder.blocks, bytes: folder.bytes },
      ...{ read: folder.counters.read, written: folder.counters.written },
      ...{ broken: folder.counters.broken, expired: folder.counters.expired },
      leftOut: folder.counters.leftOut,
    },
  };
}
