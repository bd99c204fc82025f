/** Where a folder's blocks are drawn: a cell for each of so many, which it keeps for as long as it is there. */
import type { StoreBlocks, StoreCell } from '../store/block-news.ts';
import type { StoreKey } from '../store/keys.ts';

/** So many are told one by one; a store's figures count all. */
const MOST_CELLS = 512;

export class FolderCells {
  /** Those that have a cell, the first to have got one first. */
  readonly #cells = new Map<StoreKey, number>();
  /** Those that have none, the first to have lost it first. */
  readonly #others = new Set<StoreKey>();
  /** Cells that were given up. */
  #free: number[] = [];
  /** The highest cell that was ever given out. */
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

  /** Cells that have another block since, and those that were given up. */
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
