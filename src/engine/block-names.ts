/**
 * Which block has which hash, for the blocks of one pool: a table of ids in typed arrays, which takes as much memory however
 * often names change. Of several blocks with one name the one that was named first is found. Id 0, the null block, has
 * none, and stands for nothing here.
 */
import { invariant } from '../errors.ts';
import type { BlockHash } from './block-hash.ts';
import { type BlockId, NULL_BLOCK } from './types.ts';

/** Characters of a hash that choose its bucket: enough bits, whatever digest it is of. */
const BUCKET_CHARS = 8;
/** A hash of four characters is 64 bits, which are kept as two words beside all else: of a longer one the string is kept. */
const SHORT_CHARS = 4;

/** What the bucket was chosen by: names with another word differ. Of a short hash, its second half. */
const WORD = 0;
/** Of a short hash its first half; 0 of a longer one. */
const REST = 1;
/** 1 + twice the group, and 1 more of a long hash; 0: it has no name. */
const KIND = 2;
/** The bucket's next and previous, of other names. */
const NEXT = 3;
const PREVIOUS = 4;
/** Others of the same name, as a ring in the order of naming; 0: there are none. Only the first stands in the bucket. */
const AFTER = 5;
const BEFORE = 6;
/** A power of two, so that no block's words lie in two lines of a cache. */
const FIELDS = 8;

const isShort = (hash: BlockHash): boolean => hash.length === SHORT_CHARS;
const kindOf = (hash: BlockHash, group: number): number => 1 + 2 * group + Number(!isShort(hash));
const isLong = (kind: number): boolean => kind > 0 && (kind & 1) === 0;

export class BlockNames {
  /** How often names were given and taken. */
  changes = 0;
  /** First block of each bucket. */
  readonly #heads: Int32Array;
  /** Of each block FIELDS words, side by side in memory: they are asked for together. */
  readonly #fields: Int32Array;
  /** The long ones. Grows with the highest id that had one. */
  readonly #hashes: (BlockHash | null)[] = [null];

  constructor(numBlocks: number) {
    // Twice as many as names: what is looked up and is not there is nearly always told by its bucket alone.
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

  /** Of blocks with a hash. */
  groupOf(id: BlockId): number {
    return (this.#fields[FIELDS * id + KIND]! - 1) >> 1;
  }

  isNamed(id: BlockId, hash: BlockHash, group: number): boolean {
    return this.#isNamed(id, hash, kindOf(hash, group), wordOf(hash, group), restOf(hash));
  }

  /** The block that has had this name longest; null: none has it. */
  get(hash: BlockHash, group: number): BlockId | null {
    const id = this.#find(hash, kindOf(hash, group), wordOf(hash, group), restOf(hash));
    return id === NULL_BLOCK ? null : id;
  }

  /** `id`: of a block without a name. */
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

  /** Returns whether no other block has its name. */
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
    // Of its name the one that was named next is found from now on.
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

  /** Throws InternalError unless every block with a hash is found by it, once, and no other block is. */
  checkIntegrity(): void {
    const found = new Uint8Array(this.#fields.length / FIELDS);
    for (const head of this.#heads)
      for (let first = head; first !== NULL_BLOCK; first = this.#fields[FIELDS * first + NEXT]!)
        for (const id of this.#ring(first)) {
          const hash = this.hashOf(id);
          invariant(hash !== null, () => `block ${id} is found by a hash that it has not`);
          invariant(found[id] === 0, () => `block ${id} is found twice by its hash`);
          found[id] = 1;
          const same = hash === this.hashOf(first) && this.groupOf(id) === this.groupOf(first);
          invariant(same, () => `block ${id} is found by the hash of block ${first}, and has another`);
          invariant(
            this.get(hash, this.groupOf(id)) === first,
            () => `block ${id} has a hash that does not lead back to it`,
          );
        }
    const lost = found.findIndex((times, id) => times === 0 && this.has(id));
    invariant(lost === -1, () => `block ${lost} has a hash that does not lead back to it`);
    const kept = this.#hashes.findIndex((hash, id) => hash !== null && this.hashOf(id) !== hash);
    invariant(kept === -1, () => `block ${kept} keeps a hash that it has not`);
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

  /** Where it stands in its bucket, of which it is not yet told. */
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

/** A short hash's second half; else FNV-1a over the last characters, and the group. */
function wordOf(hash: BlockHash, group: number): number {
  if (isShort(hash)) return (hash.charCodeAt(2) << 16) | hash.charCodeAt(3);
  let word = 0x811c9dc5 ^ group;
  for (let i = Math.max(0, hash.length - BUCKET_CHARS); i < hash.length; i++)
    word = Math.imul(word ^ hash.charCodeAt(i), 0x01000193);
  return word ^ (word >>> 15);
}
