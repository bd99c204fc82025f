/**
 * Token sequences as runs of contents (of a trace, or of lists), not written out: a prompt of ten thousand tokens is a
 * handful of runs. Two sequences are equal where they are the same places of the same contents. A token that belongs to
 * no content has its id; digests treat it as a content of its own.
 */
import { type TokenIds, TokenSequence } from '../../config/token-ids.ts';
import type { Segment } from '../../workload/traces/types.ts';

/** Gives the token at a place of a content: always the same one. */
export interface Contents {
  at(key: number, place: number): number;
}

/** Neighbours that continue each other are one run. Runs only grow. */
interface Runs {
  count: number;
  /**
   * Of each run its key, the place of its first token in its content, and where it begins in the sequence (KEY, FROM and
   * START); after the last run, at START, where it ends. One array of the right length: sequences live long, and new
   * memory costs more than anything that is done with them.
   */
  table: number[];
  tokens: Contents;
  /** Digests of its first blocks, for one block size. */
  blocks: { size: number; digests: string[] };
}

/** Computes a block's digest from the digest of the block before it and from its runs, added in order. */
export interface DigestChain {
  /** Parent of every first block. */
  readonly root: string;
  begin(parent: string): void;
  add(key: number, from: number, length: number): void;
  end(): string;
}

const [KEY, FROM, START] = [0, 1, 2];
/** Numbers for each run. */
const WIDTH = 3;
/** Room for runs that are appended, such as the answer to a prompt. */
const SPARE_RUNS = 2;

/** Key of the content that a single token is: negative, below all keys of contents. */
const literal = (tokenId: number): number => -1 - tokenId;

export class SegmentedTokens extends TokenSequence {
  readonly length: number;
  readonly #runs: Runs;
  readonly #start: number;

  private constructor(runs: Runs, start: number, length: number) {
    super();
    this.#runs = runs;
    this.#start = start;
    this.length = length;
  }

  static of(segments: readonly Segment[], tokens: Contents): SegmentedTokens {
    const runs = noRuns(tokens, segments.length + SPARE_RUNS);
    for (const { key, from, length } of segments) append(runs, key, from, length);
    return new SegmentedTokens(runs, 0, lengthOf(runs));
  }

  /** The contents of its runs. */
  get contents(): Contents {
    return this.#runs.tokens;
  }

  at(index: number): number | undefined {
    const place = index < 0 ? this.length + index : index;
    if (place < 0 || place >= this.length) return undefined;
    const { table, tokens } = this.#runs;
    const at = this.#start + place;
    const run = WIDTH * this.#runAt(at);
    const key = table[run + KEY]!;
    return key < 0 ? literal(key) : tokens.at(key, table[run + FROM]! + at - table[run + START]!);
  }

  slice(start = 0, end: number = this.length): SegmentedTokens {
    const from = Math.min(start, this.length);
    return new SegmentedTokens(
      this.#runs,
      this.#start + from,
      Math.max(0, Math.min(end, this.length) - from),
    );
  }

  followedBy(more: TokenIds): SegmentedTokens {
    if (more.length === 0) return this;
    const length = this.length + more.length;
    const known = this.#beyond(more);
    // Sequences that share these runs agree as far as they go: the runs grow in place, and a shorter sequence does not
    // see the rest.
    const [runs, start] = known === null ? [this.#copied(), 0] : [this.#runs, this.#start];
    const rest = known === null || known === 0 ? more : more.slice(known);
    const add = (key: number, from: number, length: number) => append(runs, key, from, length);
    if (rest instanceof SegmentedTokens) rest.eachRun(rest.length, add);
    else for (const id of rest) add(literal(id), 0, 1);
    return new SegmentedTokens(runs, start, length);
  }

  sharedWith(other: TokenIds): number {
    const length = Math.min(this.length, other.length);
    if (!(other instanceof SegmentedTokens)) {
      for (let i = 0; i < length; i++) if (this.at(i) !== other.at(i)) return i;
      return length;
    }
    const a = this.#runs.table;
    const b = other.#runs.table;
    let i = WIDTH * this.#runAt(this.#start);
    let j = WIDTH * other.#runAt(other.#start);
    for (let at = 0; at < length; ) {
      const placeA = a[i + FROM]! + this.#start + at - a[i + START]!;
      const placeB = b[j + FROM]! + other.#start + at - b[j + START]!;
      const keyA = a[i + KEY]!;
      const keyB = b[j + KEY]!;
      const known = keyA >= 0 && keyB >= 0;
      if (known ? keyA !== keyB || placeA !== placeB : this.at(at) !== other.at(at)) return at;
      const leftA = a[i + WIDTH + START]! - this.#start - at;
      const leftB = b[j + WIDTH + START]! - other.#start - at;
      at += Math.min(leftA, leftB);
      if (leftA <= leftB) i += WIDTH;
      if (leftB <= leftA) j += WIDTH;
    }
    return length;
  }

  /** Visits the runs of the first `count` tokens, in order. */
  eachRun(count: number, visit: (key: number, from: number, length: number) => void): void {
    const { table } = this.#runs;
    const end = this.#start + count;
    let at = this.#start;
    for (let run = WIDTH * this.#runAt(at); at < end; run += WIDTH) {
      const until = Math.min(end, table[run + WIDTH + START]!);
      visit(table[run + KEY]!, table[run + FROM]! + at - table[run + START]!, until - at);
      at = until;
    }
  }

  /**
   * Digests of its first `count` blocks, all of them full, and maybe of more. They are computed once for all sequences
   * that share the runs, and are not copied. null: the sequence does not begin where its runs do.
   */
  digests(size: number, count: number, chain: DigestChain): readonly string[] | null {
    if (this.#start > 0) return null;
    if (this.#runs.blocks.size !== size) this.#runs.blocks = { size, digests: [] };
    const { blocks } = this.#runs;
    if (blocks.digests.length < count) this.#digest(blocks, count, chain);
    return blocks.digests;
  }

  #digest(blocks: Runs['blocks'], count: number, chain: DigestChain): void {
    const { table } = this.#runs;
    const { size } = blocks;
    const first = blocks.digests.length;
    if (first === 0) blocks.digests = new Array<string>(count);
    const { digests } = blocks;
    let at = first * size;
    let run = WIDTH * this.#runAt(at);
    for (let block = first; block < count; block++) {
      chain.begin(block === 0 ? chain.root : digests[block - 1]!);
      for (const end = at + size; at < end; ) {
        const runEnd = table[run + WIDTH + START]!;
        const until = Math.min(end, runEnd);
        chain.add(table[run + KEY]!, table[run + FROM]! + at - table[run + START]!, until - at);
        at = until;
        if (at === runEnd) run += WIDTH;
      }
      digests[block] = chain.end();
    }
  }

  /** How many of these tokens another sequence has already appended after it; null: others were appended. */
  #beyond(more: TokenIds): number | null {
    const end = this.#start + this.length;
    const beyond = lengthOf(this.#runs) - end;
    if (beyond === 0) return 0;
    const known = Math.min(beyond, more.length);
    return new SegmentedTokens(this.#runs, end, known).sharedWith(more) === known ? known : null;
  }

  /** A copy of the runs that begins where the sequence does. */
  #copied(): Runs {
    const { tokens } = this.#runs;
    const { size, digests } = this.#runs.blocks;
    const own = this.#runAt(this.#start + this.length) - this.#runAt(this.#start) + 1;
    const copied = noRuns(tokens, own + SPARE_RUNS);
    this.eachRun(this.length, (key, from, length) => append(copied, key, from, length));
    if (this.#start === 0)
      copied.blocks = { size, digests: digests.slice(0, Math.floor(this.length / size)) };
    return copied;
  }

  #runAt(place: number): number {
    const { count, table } = this.#runs;
    let low = 0;
    for (let high = count; low < high; ) {
      const middle = (low + high) >> 1;
      if (table[WIDTH * (middle + 1) + START]! <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** `room`: for so many runs. */
function noRuns(tokens: Contents, room: number): Runs {
  const table = new Array<number>(WIDTH * (room + 1));
  table[START] = 0;
  return { count: 0, table, tokens, blocks: { size: 1, digests: [] } };
}

const lengthOf = ({ count, table }: Runs): number => table[WIDTH * count + START]!;

function append(runs: Runs, key: number, from: number, length: number): void {
  if (length === 0) return;
  const { count, table } = runs;
  const end = lengthOf(runs);
  const last = WIDTH * (count - 1);
  const goesOn =
    count > 0 && table[last + KEY] === key && table[last + FROM]! + end - table[last + START]! === from;
  if (!goesOn) {
    table[WIDTH * count + KEY] = key;
    table[WIDTH * count + FROM] = from;
    runs.count++;
  }
  table[WIDTH * runs.count + START] = end + length;
}
