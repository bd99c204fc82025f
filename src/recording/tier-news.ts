/** Changes of one tier of a store: cells that changed, and cells whose content has become known. */
import type { BlockHash } from '../engine/block-hash.ts';
import type { StoreCell } from '../store/block-news.ts';
import { partsOf } from '../store/keys.ts';
import type { BlocksByHash } from './blocks-by-hash.ts';
import { emptyBlock } from './empty-block.ts';
import type { BlockView, SessionEvent } from './events.ts';

export class TierNews {
  readonly #tier: 'memory' | 'folder';
  readonly #contents: BlocksByHash;
  readonly #cells = new Map<number, StoreCell>();
  /** The last reported state of each cell. */
  readonly #reported = new Map<number, string>();
  /** Cells reported without content, by hash. A hash may have one cell for each KV cache group. */
  readonly #unknown = new Map<BlockHash, Set<number>>();
  /** Cells to check in the next news(). */
  readonly #changed = new Set<number>();

  constructor(tier: 'memory' | 'folder', contents: BlocksByHash) {
    this.#tier = tier;
    this.#contents = contents;
  }

  set(cell: StoreCell): void {
    this.delete(cell.id);
    this.#cells.set(cell.id, cell);
  }

  delete(id: number): void {
    this.#changed.add(id);
    const cell = this.#cells.get(id);
    if (!cell) return;
    this.#cells.delete(id);
    const { hash } = partsOf(cell.key);
    const others = this.#unknown.get(hash);
    if (others?.delete(id) && others.size === 0) this.#unknown.delete(hash);
  }

  clear(): void {
    for (const id of this.#cells.keys()) this.delete(id);
  }

  /** The known content of these hashes has changed; null: of any hash. */
  learned(hashes: readonly BlockHash[] | null): void {
    if (hashes === null) for (const id of this.#cells.keys()) this.#changed.add(id);
    for (const hash of hashes ?? []) for (const id of this.#unknown.get(hash) ?? []) this.#changed.add(id);
  }

  news(numBlocks: number, atMs: number): SessionEvent[] {
    const filled: BlockView[] = [];
    const emptied: BlockView[] = [];
    for (const id of this.#changed) {
      const cell = this.#cells.get(id);
      if (cell) filled.push(...this.#newsOf(cell));
      else if (this.#reported.delete(id)) emptied.push(emptyBlock(id));
    }
    this.#changed.clear();
    const changed = [...filled, ...emptied];
    return changed.length > 0 ? [{ kind: 'store_blocks', atMs, tier: this.#tier, numBlocks, changed }] : [];
  }

  *#newsOf({ id, key, state }: StoreCell): Generator<BlockView> {
    const { hash } = partsOf(key);
    const known = this.#contents.knows(hash);
    if (known) this.#unknown.delete(hash);
    else this.#unknown.set(hash, (this.#unknown.get(hash) ?? new Set()).add(id));
    const summary = `${key} ${state} ${known}`;
    if (this.#reported.get(id) === summary) return;
    this.#reported.set(id, summary);
    yield {
      ...emptyBlock(id),
      state: ({ coming: 'arriving', ready: 'cached', read: 'held' } as const)[state],
      origin: 'pulled',
      ...this.#contents.contentOf(hash),
    };
  }
}
