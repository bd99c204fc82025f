/**
 * An ordered sequence of token ids, as policy code uses it. Arrays satisfy it. A TokenSequence need not store its ids: a
 * simulation's long prompts exist once, and are hashed and compared without being expanded.
 */
export interface TokenIds extends Iterable<number> {
  readonly length: number;
  at(index: number): number | undefined;
  slice(start?: number, end?: number): TokenIds;
}

/** An immutable sequence of token ids. */
export abstract class TokenSequence implements TokenIds {
  abstract readonly length: number;
  abstract at(index: number): number | undefined;
  abstract slice(start?: number, end?: number): TokenSequence;
  /** This sequence followed by `more`. */
  abstract followedBy(more: TokenIds): TokenSequence;
  /** Number of leading tokens that both share. */
  abstract sharedWith(other: TokenIds): number;

  *[Symbol.iterator](): Iterator<number> {
    for (let i = 0; i < this.length; i++) yield this.at(i)!;
  }
}

/** The concatenation of both. */
export function joined(first: TokenIds, second: TokenIds): TokenIds {
  if (first instanceof TokenSequence) return first.followedBy(second);
  if (second instanceof TokenSequence) return second.slice(0, 0).followedBy(first).followedBy(second);
  return [...first, ...second];
}

/** Like joined, but appends in place if `own` is an array, which the caller must own. */
export function appended(own: TokenIds, more: TokenIds): TokenIds {
  if (!Array.isArray(own) || !Array.isArray(more)) return joined(own, more);
  for (const id of more) own.push(id);
  return own;
}

/** Number of leading tokens that two sequences share. */
export function commonPrefixLength(a: TokenIds, b: TokenIds): number {
  if (a === b) return a.length;
  if (a instanceof TokenSequence) return a.sharedWith(b);
  if (b instanceof TokenSequence) return b.sharedWith(a);
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a.at(i) !== b.at(i)) return i;
  return length;
}

/** The ids as an array. */
export const written = (ids: TokenIds): readonly number[] => (Array.isArray(ids) ? ids : [...ids]);
