/**
 * The hash table of the prefix cache: which block of a pool has which name (hash and group). Uses typed arrays, so memory does
 * not depend on how often names change. If several blocks have the same name, the one named first is found. Id 0, the null
 * block, never has a name and serves as the nil index.
 */
import { invariant } from '../errors.ts';
import { type BlockHash, SHORT_HASH_CHARS } from './block-hash.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

/** Characters of a long hash that choose its bucket: enough bits for any digest. */
const BUCKET_CHARS = 8;

/** The word that chooses the bucket: names with different words differ. For a short hash, its second half. */
const WORD = 0;
/** The first half of a short hash; 0 for a long one. */
const REST = 1;
/** 1 + 2 * group, plus 1 for a long hash. 0: no name. */
const KIND = 2;
/** Next and previous block in the bucket; these have other names. */
const NEXT = 3;
const PREVIOUS = 4;
/** Ring of blocks with the same name, in order of naming; 0 if there is only one. Only the first is in the bucket. */
const AFTER = 5;
const BEFORE = 6;
/** A power of two, so that no block's words straddle two cache lines. */
const FIELDS = 8;

/** A short hash is stored inline as two words; for a longer one, the string is stored. */
const isShort = (hash: BlockHash): boolean => hash.length === SHORT_HASH_CHARS;
const kindOf = (hash: BlockHash, group: number): number => 1 + 2 * group + Number(!isShort(hash));
/** Only of a block that has a name. */
const isLong = (kind: number): boolean => (kind & 1) === 0;

export class BlockNames {
  /** Counts name additions and removals. */
  changes = 0;
  /** The first block of each bucket. */
  readonly #heads: Int32Array;
  /** FIELDS adjacent words per block: they are read together. */
  readonly #fields: Int32Array;
  /** Long hashes by block id. Grows with the highest id that had one. */
  readonly #hashes: (BlockHash | null)[] = [null];

  constructor(numBlocks: number) {
    // Twice as many buckets as names, so that a miss nearly always finds an empty bucket.
    this.#heads = new Int32Array(2 ** Math.ceil(Math.log2(2 * Math.max(2, numBlocks))));
    this.#fields = new Int32Array(FIELDS * numBlocks);
  }

  has(id: BlockId): boolean {
    return this.#fields[FIELDS * id + KIND] !== 0;
  }

  hashOf(id: BlockId): BlockHash | null {
    const kind = this.#fields[FIELDS * id + KIND]!;
    if (kind === 0) return null;
    if (isLong(kind)) return this.#hashes[id]!;
    const [first, second] = [this.#fields[FIELDS * id + REST]!, this.#fields[FIELDS * id + WORD]!];
    return String.fromCharCode(first >>> 16, first & 0xffff, second >>> 16, second & 0xffff);
  }

  /** Only for a block that has a name. */
  groupOf(id: BlockId): number {
    return (this.#fields[FIELDS * id + KIND]! - 1) >> 1;
  }

  /** The block that has had this name longest, or null. */
  get(hash: BlockHash, group: number): BlockId | null {
    const id = this.#find(hash, kindOf(hash, group), wordOf(hash, group), restOf(hash));
    return id === NULL_BLOCK ? null : id;
  }

  /** `id` must not have a name. */
  add(id: BlockId, hash: BlockHash, group: number): void {
    this.changes++;
    const fields = this.#fields;
    const [kind, word, rest] = [kindOf(hash, group), wordOf(hash, group), restOf(hash)];
    fields[FIELDS * id + WORD] = word;
    fields[FIELDS * id + REST] = rest;
    fields[FIELDS * id + KIND] = kind;
    if (isLong(kind)) {
      while (this.#hashes.length <= id) this.#hashes.push(null);
      this.#hashes[id] = hash;
    }
    const first = this.#find(hash, kind, word, rest);
    if (first === NULL_BLOCK) {
      const bucket = this.#bucket(word);
      this.#link(id, NULL_BLOCK, this.#heads[bucket]!);
      this.#heads[bucket] = id;
      return;
    }
    const last = fields[FIELDS * first + BEFORE]! || first;
    fields[FIELDS * last + AFTER] = id;
    fields[FIELDS * id + BEFORE] = last;
    fields[FIELDS * id + AFTER] = first;
    fields[FIELDS * first + BEFORE] = id;
  }

  /** `id` must have a name. Returns whether no other block has the same one. */
  remove(id: BlockId): boolean {
    this.changes++;
    const fields = this.#fields;
    if (isLong(fields[FIELDS * id + KIND]!)) this.#hashes[id] = null;
    fields[FIELDS * id + KIND] = 0;
    const [next, previous] = [fields[FIELDS * id + NEXT]!, fields[FIELDS * id + PREVIOUS]!];
    const after = fields[FIELDS * id + AFTER]!;
    const bucket = this.#bucket(fields[FIELDS * id + WORD]!);
    const isFirst = previous !== NULL_BLOCK || this.#heads[bucket] === id;
    if (after !== NULL_BLOCK) this.#leaveRing(id, after);
    if (!isFirst) return false;
    // From now on the block that got this name next is found.
    if (after !== NULL_BLOCK) this.#link(after, previous, next);
    else if (next !== NULL_BLOCK) fields[FIELDS * next + PREVIOUS] = previous;
    const follower = after === NULL_BLOCK ? next : after;
    if (previous === NULL_BLOCK) this.#heads[bucket] = follower;
    else fields[FIELDS * previous + NEXT] = follower;
    fields[FIELDS * id + NEXT] = NULL_BLOCK;
    fields[FIELDS * id + PREVIOUS] = NULL_BLOCK;
    return after === NULL_BLOCK;
  }

  clear(): void {
    this.changes++;
    this.#heads.fill(NULL_BLOCK);
    this.#fields.fill(NULL_BLOCK);
    this.#hashes.fill(null);
  }

  /** Throws InternalError unless every named block is found exactly once by its name, and no other block is found. */
  checkIntegrity(): void {
    const found = new Uint8Array(this.#fields.length / FIELDS);
    for (const head of this.#heads)
      for (let first = head; first !== NULL_BLOCK; first = this.#fields[FIELDS * first + NEXT]!)
        for (const id of this.#ring(first)) {
          const hash = this.hashOf(id);
          invariant(hash !== null, () => `block ${id} is found by a hash that it does not have`);
          invariant(found[id] === 0, () => `block ${id} is found twice by its hash`);
          found[id] = 1;
          const same = hash === this.hashOf(first) && this.groupOf(id) === this.groupOf(first);
          invariant(same, () => `block ${id} is found by the hash of block ${first}, but has another`);
          invariant(
            this.get(hash, this.groupOf(id)) === first,
            () => `block ${id} has a hash that does not lead back to it`,
          );
        }
    const lost = found.findIndex((times, id) => times === 0 && this.has(id));
    invariant(lost === -1, () => `block ${lost} has a hash that does not lead back to it`);
    const kept = this.#hashes.findIndex((hash, id) => hash !== null && this.hashOf(id) !== hash);
    invariant(kept === -1, () => `block ${kept} keeps a hash that it does not have`);
  }

  *#ring(first: BlockId): Iterable<BlockId> {
    let id = first;
    do {
      yield id;
      id = this.#fields[FIELDS * id + AFTER]!;
    } while (id !== NULL_BLOCK && id !== first);
  }

  #bucket(word: number): number {
    return word & (this.#heads.length - 1);
  }

  #find(hash: BlockHash, kind: number, word: number, rest: number): BlockId {
    const fields = this.#fields;
    for (let id = this.#heads[this.#bucket(word)]!; id !== NULL_BLOCK; id = fields[FIELDS * id + NEXT]!)
      if (this.#isNamed(id, hash, kind, word, rest)) return id;
    return NULL_BLOCK;
  }

  #isNamed(id: BlockId, hash: BlockHash, kind: number, word: number, rest: number): boolean {
    const fields = this.#fields;
    const at = FIELDS * id;
    if (fields[at + WORD] !== word || fields[at + KIND] !== kind || fields[at + REST] !== rest) return false;
    return !isLong(kind) || this.#hashes[id] === hash;
  }

  /** Links id between two blocks of a bucket. The caller updates the bucket's head or `previous`. */
  #link(id: BlockId, previous: BlockId, next: BlockId): void {
    this.#fields[FIELDS * id + PREVIOUS] = previous;
    this.#fields[FIELDS * id + NEXT] = next;
    if (next !== NULL_BLOCK) this.#fields[FIELDS * next + PREVIOUS] = id;
  }

  #leaveRing(id: BlockId, after: BlockId): void {
    const before = this.#fields[FIELDS * id + BEFORE]!;
    const alone = before === after;
    this.#fields[FIELDS * before + AFTER] = alone ? NULL_BLOCK : after;
    this.#fields[FIELDS * after + BEFORE] = alone ? NULL_BLOCK : before;
    this.#fields[FIELDS * id + AFTER] = NULL_BLOCK;
    this.#fields[FIELDS * id + BEFORE] = NULL_BLOCK;
  }
}

const restOf = (hash: BlockHash): number =>
  isShort(hash) ? (hash.charCodeAt(0) << 16) | hash.charCodeAt(1) : 0;

/** The second half of a short hash; else FNV-1a over the group and the last characters. */
function wordOf(hash: BlockHash, group: number): number {
  if (isShort(hash)) return (hash.charCodeAt(2) << 16) | hash.charCodeAt(3);
  let word = 0x811c9dc5 ^ group;
  for (let i = Math.max(0, hash.length - BUCKET_CHARS); i < hash.length; i++)
    word = Math.imul(word ^ hash.charCodeAt(i), 0x01000193);
  return word ^ (word >>> 15);
}
