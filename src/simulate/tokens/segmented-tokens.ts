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

/** Runs in columns. Neighbours that continue each other are one run. Runs only grow. */
interface Runs {
  keys: number[];
  /** Place of each run's first token in its content. */
  froms: number[];
  /** Where each run begins in the sequence, and last, where the last run ends. */
  starts: number[];
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
    const runs = noRuns(tokens);
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
    const { keys, froms, starts, tokens } = this.#runs;
    const at = this.#start + place;
    const run = this.#runAt(at);
    const key = keys[run]!;
    return key < 0 ? literal(key) : tokens.at(key, froms[run]! + at - starts[run]!);
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
    const a = this.#runs;
    const b = other.#runs;
    let i = this.#runAt(this.#start);
    let j = other.#runAt(other.#start);
    for (let at = 0; at < length; ) {
      const placeA = a.froms[i]! + this.#start + at - a.starts[i]!;
      const placeB = b.froms[j]! + other.#start + at - b.starts[j]!;
      const [keyA, keyB] = [a.keys[i]!, b.keys[j]!];
      const known = keyA >= 0 && keyB >= 0;
      if (known ? keyA !== keyB || placeA !== placeB : this.at(at) !== other.at(at)) return at;
      const leftA = a.starts[i + 1]! - this.#start - at;
      const leftB = b.starts[j + 1]! - other.#start - at;
      at += Math.min(leftA, leftB);
      if (leftA <= leftB) i++;
      if (leftB <= leftA) j++;
    }
    return length;
  }

  /** Visits the runs of the first `count` tokens, in order. */
  eachRun(count: number, visit: (key: number, from: number, length: number) => void): void {
    const { keys, froms, starts } = this.#runs;
    const end = this.#start + count;
    let at = this.#start;
    for (let run = this.#runAt(at); at < end; run++) {
      const until = Math.min(end, starts[run + 1]!);
      visit(keys[run]!, froms[run]! + at - starts[run]!, until - at);
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
    const { digests } = this.#runs.blocks;
    this.#digest(digests, size, count, chain);
    return digests;
  }

  #digest(digests: string[], size: number, count: number, chain: DigestChain): void {
    if (digests.length >= count) return;
    const { keys, froms, starts } = this.#runs;
    let at = digests.length * size;
    let run = this.#runAt(at);
    while (digests.length < count) {
      chain.begin(digests.length === 0 ? chain.root : digests[digests.length - 1]!);
      for (const end = at + size; at < end; ) {
        const runEnd = starts[run + 1]!;
        const until = Math.min(end, runEnd);
        chain.add(keys[run]!, froms[run]! + at - starts[run]!, until - at);
        at = until;
        if (at === runEnd) run++;
      }
      digests.push(chain.end());
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
    const { keys, froms, starts, tokens } = this.#runs;
    const { size, digests } = this.#runs.blocks;
    const end = this.#start + this.length;
    if (this.length === 0) return noRuns(tokens);
    const first = this.#runAt(this.#start);
    const last = this.#runAt(end - 1);
    const copied = {
      keys: keys.slice(first, last + 1),
      froms: froms.slice(first, last + 1),
      starts: starts.slice(first, last + 2),
      tokens,
      blocks: { size, digests: this.#start > 0 ? [] : digests.slice(0, Math.floor(this.length / size)) },
    };
    copied.froms[0]! += this.#start - starts[first]!;
    copied.starts[0] = this.#start;
    copied.starts[copied.keys.length] = end;
    if (this.#start > 0) for (let i = 0; i < copied.starts.length; i++) copied.starts[i]! -= this.#start;
    return copied;
  }

  #runAt(place: number): number {
    const { keys, starts } = this.#runs;
    let low = 0;
    for (let high = keys.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (starts[middle + 1]! <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const noRuns = (tokens: Contents): Runs => {
  return { keys: [], froms: [], starts: [0], tokens, blocks: { size: 1, digests: [] } };
};

const lengthOf = ({ starts }: Runs): number => starts[starts.length - 1]!;

function append(runs: Runs, key: number, from: number, length: number): void {
  if (length === 0) return;
  const { keys, froms, starts } = runs;
  const last = keys.length - 1;
  const end = lengthOf(runs);
  const goesOn = last >= 0 && keys[last] === key && froms[last]! + end - starts[last]! === from;
  if (goesOn) starts[last + 1] = end + length;
  else {
    keys.push(key);
    froms.push(from);
    starts.push(end + length);
  }
}
