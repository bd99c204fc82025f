/** Assigns cells to a folder's blocks for drawing. A block keeps its cell while it has one. */
import type { StoreBlocks, StoreCell } from '../store/block-news.ts';
import type { StoreKey } from '../store/keys.ts';

/** At most this many blocks are reported one by one; the store's figures count all. */
const MOST_CELLS = 512;

export class FolderCells {
  /** Blocks that have a cell, oldest first. */
  readonly #cells = new Map<StoreKey, number>();
  /** Blocks without a cell; the one that lost its cell first is first. */
  readonly #others = new Set<StoreKey>();
  /** Free cells. */
  #free: number[] = [];
  /** The highest cell assigned so far. */
  #size = 0;

  get size(): number {
    return this.#size;
  }

  clear(): void {
    this.#cells.clear();
    this.#others.clear();
    this.#free = [];
    this.#size = 0;
  }

  /** Returns the cells with a new block, and the cells that are now free. */
  take({ came, gone }: NonNullable<StoreBlocks['folder']>): { came: StoreCell[]; gone: number[] } {
    const given = new Map<number, StoreKey>();
    const left: number[] = [];
    const give = (key: StoreKey): void => {
      const id = this.#free.pop() ?? ++this.#size;
      this.#cells.set(key, id);
      given.set(id, key);
    };
    const giveUp = (key: StoreKey): void => {
      const id = this.#cells.get(key)!;
      this.#cells.delete(key);
      this.#free.push(id);
      given.delete(id);
      left.push(id);
    };
    for (const key of gone) if (!this.#others.delete(key) && this.#cells.has(key)) giveUp(key);
    for (const key of came) {
      if (this.#cells.has(key) || this.#others.has(key)) continue;
      const [first] = this.#cells.keys();
      if (this.#cells.size >= MOST_CELLS && first !== undefined) {
        giveUp(first);
        this.#others.add(first);
      }
      give(key);
    }
    for (const key of this.#others) {
      if (this.#cells.size >= MOST_CELLS) break;
      this.#others.delete(key);
      give(key);
    }
    return {
      came: [...given].map(([id, key]) => ({ id, key, state: 'ready' as const })),
      gone: left.filter((id) => !given.has(id)),
    };
  }
}
