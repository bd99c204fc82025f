/** What is new in a store's tiers and figures since they were last told of. A cell keeps its block for as long as it is there. */
import type { StoreBlocks, StoreCell } from '../store/block-news.ts';
import type { StoreStats } from '../store/host.ts';
import { partsOf, type StoreKey } from '../store/keys.ts';
import type { BlockViews } from './block-views.ts';
import { BlocksByHash } from './blocks-by-hash.ts';
import { emptyBlock } from './empty-block.ts';
import type { BlockView, SessionEvent, StoreFigures } from './events.ts';

type Tier = 'memory' | 'folder';

/** Of a folder so many blocks are told one by one; its figures count all. */
const MOST_FOLDER_CELLS = 512;

export interface StoreLook {
  blocks: StoreBlocks;
  stats: StoreStats;
  /** By all engines since they were last set. */
  twoHopBytes: number;
}

export class StoreNews {
  readonly #contents: BlocksByHash;
  readonly #told = { memory: new Map<number, string>(), folder: new Map<number, string>() };
  /** As the store told so far. */
  readonly #memory = new Map<number, StoreCell>();
  readonly #folder = new Set<StoreKey>();
  /** What of the folder is told one by one, and where it is put. */
  readonly #cells = new Map<StoreKey, number>();
  #revision = 0;
  #figures = 'null';

  constructor(views: BlockViews, blockSize: number) {
    this.#contents = new BlocksByHash(views, blockSize);
  }

  /** Of the last look: the next one need tell no more than what came after. */
  get revision(): number {
    return this.#revision;
  }

  /** null: there is no store any more. */
  news(look: StoreLook | null, atMs: number): SessionEvent[] {
    if (!look) return this.#changed(null) ? [{ kind: 'store', atMs, figures: null }] : [];
    this.#take(look.blocks);
    this.#contents.refresh();
    const events = this.#tier('memory', look.stats.slots, [...this.#memory.values()], atMs);
    if (look.blocks.folder) {
      const cells = this.#placed([...this.#folder]);
      events.push(...this.#tier('folder', Math.max(0, ...cells.map(({ id }) => id)), cells, atMs));
    }
    const figures = figuresOf(look);
    if (this.#changed(figures)) events.unshift({ kind: 'store', atMs, figures });
    return events;
  }

  #take({ revision, whole, memory, folder }: StoreBlocks): void {
    this.#revision = revision;
    if (whole) {
      this.#memory.clear();
      this.#folder.clear();
    }
    for (const id of memory.gone) this.#memory.delete(id);
    for (const cell of memory.changed) this.#memory.set(cell.id, cell);
    for (const hash of folder?.gone ?? []) this.#folder.delete(hash);
    for (const hash of folder?.came ?? []) this.#folder.add(hash);
  }

  #changed(figures: StoreFigures | null): boolean {
    const text = JSON.stringify(figures);
    if (text === this.#figures) return false;
    this.#figures = text;
    return true;
  }

  /** Cells from 1 on: one that was given up is taken by the next that comes. */
  #placed(keys: readonly StoreKey[]): StoreCell[] {
    const there = new Set(keys.slice(-MOST_FOLDER_CELLS));
    for (const key of this.#cells.keys()) if (!there.has(key)) this.#cells.delete(key);
    const taken = new Set(this.#cells.values());
    let next = 1;
    for (const key of there) {
      if (this.#cells.has(key)) continue;
      while (taken.has(next)) next++;
      taken.add(next);
      this.#cells.set(key, next);
    }
    return [...this.#cells].map(([key, id]) => ({ id, key, state: 'ready' }));
  }

  /** A store may have thousands: only what changed is put into words. */
  #tier(tier: Tier, numBlocks: number, cells: readonly StoreCell[], atMs: number): SessionEvent[] {
    const told = this.#told[tier];
    const gone = new Set(told.keys());
    const changed: BlockView[] = [];
    for (const cell of cells) {
      gone.delete(cell.id);
      const seen = `${cell.key} ${cell.state} ${this.#contents.knows(partsOf(cell.key).hash)}`;
      if (told.get(cell.id) === seen) continue;
      told.set(cell.id, seen);
      changed.push(this.#view(cell));
    }
    for (const id of gone) {
      told.delete(id);
      changed.push(emptyBlock(id));
    }
    return changed.length > 0 ? [{ kind: 'store_blocks', atMs, tier, numBlocks, changed }] : [];
  }

  #view({ id, key, state }: StoreCell): BlockView {
    return {
      ...emptyBlock(id),
      state: ({ coming: 'arriving', ready: 'cached', read: 'held' } as const)[state],
      origin: 'pulled',
      ...this.#contents.contentOf(partsOf(key).hash),
    };
  }
}

function figuresOf({ stats, blocks, twoHopBytes }: StoreLook): StoreFigures {
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
