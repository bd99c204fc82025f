/**
 * Which engine has which KV block cached, learnt from the engines' cache events. Stores block hashes, with one bit
 * per engine and KV cache group. It grows with the engines' pools, up to MOST_HASHES.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { TokenIds } from '../config/token-ids.ts';
import { type BlockHash, type BlockHashing, extendHashes } from '../engine/block-hash.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import { FULL_GROUP } from '../engine/kv-cache-spec.ts';
import { type GroupKind, groupKinds, hitLength } from '../engine/prefix-lookup.ts';
import { invariant } from '../errors.ts';

/** Bound on the index. Hashes beyond it are not added, so the blocks cached under them are not found. */
const MOST_HASHES = 2 ** 18;
const BITS = 32;

export class PrefixIndex {
  readonly #hashing: BlockHashing;
  readonly #numGroups: number;
  readonly #fullGroups: readonly number[];
  readonly #windowed: readonly GroupKind[];
  /** For each hash, one bit for each engine that has it, in one word per group; then the words of further engines. */
  readonly #holders = new Map<BlockHash, Uint32Array>();
  /** Each engine's bit; bits of forgotten engines are reused. */
  readonly #bits = new Map<string, number>();

  /** `groups`: the engines' KV cache groups. */
  constructor(hashing: BlockHashing, groups: readonly KvCacheSpec[] = FULL_GROUP) {
    this.#hashing = hashing;
    this.#numGroups = groups.length;
    this.#fullGroups = groups.flatMap(({ kind }, group) => (kind === 'full' ? [group] : []));
    this.#windowed = groupKinds(groups, hashing.blockSize).filter(({ consecutive }) => consecutive !== null);
  }

  get size(): number {
    return this.#holders.size;
  }

  update(engineId: string, events: readonly CacheEvent[]): void {
    const bit = this.#bitOf(engineId);
    for (const event of events) {
      if (event.kind === 'cleared') {
        this.#clear(bit);
        continue;
      }
      const { group } = event;
      invariant(group < this.#numGroups, () => `${engineId} reported a block of an unknown group, ${group}`);
      const word = this.#holderWord(bit, group);
      if (event.kind === 'stored') for (const hash of event.blockHashes) this.#add(hash, word, bit);
      else for (const hash of event.blockHashes) this.#remove(hash, word, bit);
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
   * Leading tokens of the prompt that each engine can use; engines that can use none are absent. Hashes the prompt only
   * as far as some engine has it in its full groups.
   */
  match(tokenIds: TokenIds, cacheSalt: string | null): ReadonlyMap<string, number> {
    const hashes: BlockHash[] = [];
    const found = this.#inFullGroups({ tokenIds, cacheSalt }, hashes);
    if (this.#windowed.length > 0) this.#shorten(found, hashes, tokenIds.length);
    return found;
  }

  /** The match if only full groups counted; without any, the whole prompt. Adds the hashes that it needed. */
  #inFullGroups(prompt: { tokenIds: TokenIds; cacheSalt: string | null }, hashes: BlockHash[]) {
    const found = new Map<string, number>();
    const { blockSize } = this.#hashing;
    let left: Uint32Array = Uint32Array.from({ length: this.#words }, () => 0xffff_ffff);
    for (let block = 1; block * blockSize <= prompt.tokenIds.length; block++) {
      extendHashes(hashes, prompt, this.#hashing, block);
      const holders = this.#holders.get(hashes[block - 1]!);
      const matching = this.#inAllFull(left, holders);
      this.#end(left, matching, (block - 1) * blockSize, found);
      if (matching.every((word) => word === 0)) return found;
      left = matching;
    }
    const none = left.map(() => 0);
    this.#end(left, none, hashes.length * blockSize, found);
    return found;
  }

  /** Those of the engines that have a block in every full group. */
  #inAllFull(engines: Uint32Array, holders: Uint32Array | undefined): Uint32Array {
    const having = engines.slice();
    const step = this.#numGroups;
    for (const group of this.#fullGroups)
      for (let i = 0; i < having.length; i++) having[i]! &= holders?.[i * step + group] ?? 0;
    return having;
  }

  /**
   * Shortens each engine's match until its windowed groups have what they need at its end. Never to the whole prompt, as its
   * last token must run.
   */
  #shorten(found: Map<string, number>, hashes: readonly BlockHash[], promptTokens: number): void {
    const { blockSize } = this.#hashing;
    const holders = hashes.map((hash) => this.#holders.get(hash));
    for (const [engineId, tokens] of found) {
      const bit = this.#bits.get(engineId)!;
      const firstWord = this.#holderWord(bit, 0);
      const most = Math.floor(Math.min(tokens, promptTokens - 1) / blockSize);
      const has = (group: number, block: number) =>
        ((holders[block]?.[firstWord + group] ?? 0) & maskOf(bit)) !== 0;
      const blocks = hitLength(this.#windowed, most, has);
      if (blocks > 0) found.set(engineId, blocks * blockSize);
      else found.delete(engineId);
    }
  }

  /** Records the engines whose match ends here, with `tokens` tokens. */
  #end(before: Uint32Array, after: Uint32Array, tokens: number, found: Map<string, number>): void {
    if (tokens === 0 || before.every((word, i) => word === after[i])) return;
    const ended = before.map((word, i) => word & ~after[i]!);
    for (const [engineId, bit] of this.#bits)
      if ((ended[wordOf(bit)]! & maskOf(bit)) !== 0) found.set(engineId, tokens);
  }

  /** Words of one group. */
  get #words(): number {
    let most = 0;
    for (const bit of this.#bits.values()) most = Math.max(most, bit);
    return wordOf(most) + 1;
  }

  /** Where a hash's holders have an engine's bit for this group. */
  #holderWord(bit: number, group: number): number {
    return wordOf(bit) * this.#numGroups + group;
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

  #add(hash: BlockHash, word: number, bit: number): void {
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
    holders[word]! |= maskOf(bit);
  }

  #remove(hash: BlockHash, word: number, bit: number): void {
    const holders = this.#holders.get(hash);
    if (!holders || word >= holders.length) return;
    holders[word]! &= ~maskOf(bit);
    if (holders.every((each) => each === 0)) this.#holders.delete(hash);
  }

  #clear(bit: number): void {
    for (const hash of [...this.#holders.keys()])
      for (let group = 0; group < this.#numGroups; group++)
        this.#remove(hash, this.#holderWord(bit, group), bit);
  }
}

/** Which word of a list with one bit per engine has this bit. */
const wordOf = (bit: number): number => Math.floor(bit / BITS);
/** The bit within its word. */
const maskOf = (bit: number): number => 1 << (bit % BITS);
