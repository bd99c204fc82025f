/** Assigns cells to a folder's blocks for drawing. A block keeps its cell while it has one. */
import type { StoreBlocks, StoreCell } from '../store/block-news.ts';
import type { StoreKey } from '../store/keys.ts';

/** At most this many blocks are reported one by one; the store's figures count all. */
const MOST_CELLS = 512;

export class FolderCells {
  /** Blocks that have a cell, oldest first. */
  readonly #cells = new Map<StoreKey, number>();
  /** Blocks without a cell; the one that lost its cell first is first. */
  readonly #withoutCell = new Set<StoreKey>();
  /** Free cells. */
  #free: number[] = [];
  /** The highest cell assigned so far. */
  #size = 0;

  get size(): number {
    return this.#size;
  }

  clear(): void {
    this.#cells.clear();
    this.#withoutCell.clear();
    this.#free = [];
    this.#size = 0;
  }

  /** Returns the cells with a new block, and the cells that are now free. */
  take({ came, gone }: NonNullable<StoreBlocks['folder']>): { filled: StoreCell[]; freed: number[] } {
    const assigned = new Map<number, StoreKey>();
    const vacated: number[] = [];
    const assign = (key: StoreKey): void => {
      const id = this.#free.pop() ?? ++this.#size;
      this.#cells.set(key, id);
      assigned.set(id, key);
    };
    const vacate = (key: StoreKey): void => {
      const id = this.#cells.get(key)!;
      this.#cells.delete(key);
      this.#free.push(id);
      assigned.delete(id);
      vacated.push(id);
    };
    for (const key of gone) if (!this.#withoutCell.delete(key) && this.#cells.has(key)) vacate(key);
    for (const key of came) {
      if (this.#cells.has(key) || this.#withoutCell.has(key)) continue;
      const [first] = this.#cells.keys();
      if (this.#cells.size >= MOST_CELLS && first !== undefined) {
        vacate(first);
        this.#withoutCell.add(first);
      }
      assign(key);
    }
    for (const key of this.#withoutCell) {
      if (this.#cells.size >= MOST_CELLS) break;
      this.#withoutCell.delete(key);
      assign(key);
    }
    return {
      filled: [...assigned].map(([id, key]) => ({ id, key, state: 'ready' as const })),
      freed: vacated.filter((id) => !assigned.has(id)),
    };
  }
}
