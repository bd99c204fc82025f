/** Contents of full blocks by hash, for remembered turns. Only hashes without a cache salt. */
import { type BlockHash, createBlockHasher, extendHashes } from '../engine/block-hash.ts';
import { HASH_SEED } from '../fleet/options.ts';
import { type BlockContent, type BlockViews, HASH_DIGITS, type Sequence } from './block-views.ts';

/** With more hashes than this, all are computed again, so that forgotten turns leave nothing behind. */
const MOST_HASHES = 65_536;

export class BlocksByHash {
  readonly #views: BlockViews;
  readonly #blockSize: number;
  readonly #hasher = createBlockHasher(HASH_SEED);
  #hashes = new WeakMap<Sequence, BlockHash[]>();
  readonly #places = new Map<BlockHash, { sequence: Sequence; index: number }>();

  constructor(views: BlockViews, blockSize: number) {
    this.#views = views;
    this.#blockSize = blockSize;
  }

  /** Whether the block's content is known, as of the last refresh(). */
  knows(hash: BlockHash): boolean {
    return this.#places.has(hash);
  }

  contentOf(hash: BlockHash): BlockContent & { hash: string } {
    const { sequence = null, index = 0 } = this.#places.get(hash) ?? {};
    const content = this.#views.contentAt(sequence, index, this.#blockSize);
    return { ...content, index: sequence && index, hash: hash.slice(0, HASH_DIGITS) };
  }

  /** Hashes what turns have grown by. Returns the newly known hashes; null: any hash may have changed. */
  refresh(): readonly BlockHash[] | null {
    const overflowed = this.#places.size > MOST_HASHES;
    if (overflowed) {
      this.#places.clear();
      this.#hashes = new WeakMap();
    }
    const learned: BlockHash[] = [];
    const hashing = { hasher: this.#hasher, blockSize: this.#blockSize };
    for (const sequence of this.#views.sequences()) {
      const hashes = this.#hashes.get(sequence) ?? [];
      const known = hashes.length;
      const { tokenIds } = sequence;
      extendHashes(hashes, { tokenIds, cacheSalt: null }, hashing, Number.POSITIVE_INFINITY);
      this.#hashes.set(sequence, hashes);
      for (let index = known; index < hashes.length; index++) {
        const hash = hashes[index]!;
        if (!this.#places.has(hash)) learned.push(hash);
        this.#places.set(hash, { sequence, index });
      }
    }
    return overflowed ? null : learned;
  }
}
