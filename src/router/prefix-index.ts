/**
 * Which engine has which KV block cached, learnt from the engines' cache events. Stores block hashes, with one bit
 * per engine. It grows with the engines' pools, up to MOST_HASHES.
 */
import type { TokenIds } from '../config/token-ids.ts';
import { type BlockHash, type BlockHashing, extendHashes } from '../engine/block-hash.ts';
import type { CacheEvent } from '../engine/cache-event.ts';

/** Bound on the index. Hashes beyond it are not added, so the blocks cached under them are not found. */
const MOST_HASHES = 2 ** 18;
const BITS = 32;

export class PrefixIndex {
  readonly #hashing: BlockHashing;
  readonly #group: number;
  /** For each hash, one bit for each engine that has it. */
  readonly #holders = new Map<BlockHash, Uint32Array>();
  /** Each engine's bit; bits of forgotten engines are reused. */
  readonly #bits = new Map<string, number>();

  /** `group`: the KV cache group that determines prefixes. Use one that keeps all blocks, if there is one. */
  constructor(hashing: BlockHashing, group = 0) {
    this.#hashing = hashing;
    this.#group = group;
  }

  get size(): number {
    return this.#holders.size;
  }

  update(engineId: string, events: readonly CacheEvent[]): void {
    const bit = this.#bitOf(engineId);
    for (const event of events) {
      // Other groups are ignored: a windowed group has at best the end of a prefix.
      if (event.kind === 'cleared') this.#clear(bit);
      else if (event.group !== this.#group) continue;
      else if (event.kind === 'stored') for (const hash of event.blockHashes) this.#add(hash, bit);
      else for (const hash of event.blockHashes) this.#remove(hash, bit);
    }
  }

  /** Call when the engine is gone: removes it and what it had. */
  forget(engineId: string): void {
    const bit = this.#bits.get(engineId);
    if (bit === undefined) return;
    this.#clear(bit);
    this.#bits.delete(engineId);
  }

  /**
   * Leading tokens of the prompt that each engine has; engines that have none are absent. Hashes the prompt only as
   * far as some engine has it.
   */
  match(tokenIds: TokenIds, cacheSalt: string | null): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    const { blockSize } = this.#hashing;
    const hashes: BlockHash[] = [];
    let left = Uint32Array.from({ length: this.#words }, () => 0xffff_ffff);
    for (let block = 1; block * blockSize <= tokenIds.length; block++) {
      extendHashes(hashes, { tokenIds, cacheSalt }, this.#hashing, block);
      const holders = this.#holders.get(hashes[block - 1]!);
      const matching = left.map((word, i) => word & (holders?.[i] ?? 0));
      this.#end(left, matching, (block - 1) * blockSize, found);
      if (matching.every((word) => word === 0)) return found;
      left = matching;
    }
    const none = left.map(() => 0);
    this.#end(left, none, hashes.length * blockSize, found);
    return found;
  }

  /** Records the engines whose match ends here, with `tokens` tokens. */
  #end(before: Uint32Array, after: Uint32Array, tokens: number, found: Map<string, number>): void {
    if (tokens === 0 || before.every((word, i) => word === after[i])) return;
    for (const [engineId, bit] of this.#bits)
      if (hasBit(before, bit) && !hasBit(after, bit)) found.set(engineId, tokens);
  }

  get #words(): number {
    let most = 0;
    for (const bit of this.#bits.values()) most = Math.max(most, bit);
    return Math.floor(most / BITS) + 1;
  }

  #bitOf(engineId: string): number {
    const known = this.#bits.get(engineId);
    if (known !== undefined) return known;
    const used = new Set(this.#bits.values());
    let bit = 0;
    while (used.has(bit)) bit++;
    this.#bits.set(engineId, bit);
    return bit;
  }

  #add(hash: BlockHash, bit: number): void {
    const word = Math.floor(bit / BITS);
    let holders = this.#holders.get(hash);
    if (!holders) {
      if (this.#holders.size >= MOST_HASHES) return;
      holders = new Uint32Array(word + 1);
      this.#holders.set(hash, holders);
    } else if (holders.length <= word) {
      const longer = new Uint32Array(word + 1);
      longer.set(holders);
      holders = longer;
      this.#holders.set(hash, holders);
    }
    holders[word]! |= 1 << (bit % BITS);
  }

  #remove(hash: BlockHash, bit: number): void {
    const holders = this.#holders.get(hash);
    const word = Math.floor(bit / BITS);
    if (!holders || word >= holders.length) return;
    holders[word]! &= ~(1 << (bit % BITS));
    if (holders.every((each) => each === 0)) this.#holders.delete(hash);
  }

  #clear(bit: number): void {
    for (const hash of [...this.#holders.keys()]) this.#remove(hash, bit);
  }
}

const hasBit = (words: Uint32Array, bit: number): boolean =>
  ((words[Math.floor(bit / BITS)] ?? 0) & (1 << (bit % BITS))) !== 0;
