/** What comes to a store's memory and folder and what leaves them, told together for as long as somebody listens. */
import type { BlockHash } from '../engine/block-hash.ts';
import type { CacheEvent, Medium } from '../engine/cache-event.ts';

type Kind = 'stored' | 'removed';

export class StoreReport {
  readonly #blockSize: number;
  readonly #tell: (events: CacheEvent[]) => void;
  #wanted = false;
  /** In order; neighbours of a kind and medium are one. */
  #changes: { kind: Kind; medium: Medium; hashes: BlockHash[] }[] = [];

  /** `tell`: once for all that changed in one go. */
  constructor(blockSize: number, tell: (events: CacheEvent[]) => void) {
    this.#blockSize = blockSize;
    this.#tell = tell;
  }

  /** Whoever begins to listen is told what is there, by medium. */
  want(wanted: boolean, there: readonly (readonly [Medium, readonly BlockHash[]])[]): void {
    this.#wanted = wanted;
    this.#changes = [];
    if (!wanted) return;
    for (const [medium, hashes] of there) if (hashes.length > 0) this.#add('stored', medium, hashes);
  }

  readonly changedIn = (medium: Medium) => (kind: Kind, hash: BlockHash) => this.#add(kind, medium, [hash]);

  #add(kind: Kind, medium: Medium, hashes: readonly BlockHash[]): void {
    if (!this.#wanted) return;
    if (this.#changes.length === 0) queueMicrotask(() => this.#flush());
    const last = this.#changes.at(-1);
    if (last?.kind === kind && last.medium === medium) last.hashes.push(...hashes);
    else this.#changes.push({ kind, medium, hashes: [...hashes] });
  }

  #flush(): void {
    const changes = this.#changes;
    this.#changes = [];
    if (changes.length === 0) return;
    this.#tell(
      changes.map(({ kind, medium, hashes: blockHashes }): CacheEvent => {
        if (kind === 'removed') return { kind, group: 0, blockHashes, medium };
        const unknown = { parentBlockHash: null, tokenIds: [] };
        return { kind, group: 0, blockHashes, ...unknown, blockSize: this.#blockSize, medium };
      }),
    );
  }
}
