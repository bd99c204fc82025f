/**
 * Token ids in their order, as policy handles them. An array is one; a TokenSequence is one that need not hold its ids: long
 * prompts of a simulation exist once, whoever has them, and are hashed and compared without being written out.
 */
export interface TokenIds extends Iterable<number> {
  readonly length: number;
  at(index: number): number | undefined;
  slice(start?: number, end?: number): TokenIds;
}

/** Immutable; all of it are token ids. */
export abstract class TokenSequence implements TokenIds {
  abstract readonly length: number;
  abstract at(index: number): number | undefined;
  abstract slice(start?: number, end?: number): TokenSequence;
  /** This, then more. */
  abstract followedBy(more: TokenIds): TokenSequence;
  /** Leading tokens that both have. */
  abstract sharedWith(other: TokenIds): number;

  *[Symbol.iterator](): Iterator<number> {
    for (let i = 0; i < this.length; i++) yield this.at(i)!;
  }
}

/** One after the other. */
export function joined(first: TokenIds, second: TokenIds): TokenIds {
  if (first instanceof TokenSequence) return first.followedBy(second);
  if (second instanceof TokenSequence) return second.slice(0, 0).followedBy(first).followedBy(second);
  return [...first, ...second];
}

/** The same, of an array that is the caller's own, which grows. */
export function appended(own: TokenIds, more: TokenIds): TokenIds {
  if (!Array.isArray(own) || !Array.isArray(more)) return joined(own, more);
  for (const id of more) own.push(id);
  return own;
}

/** Leading tokens that two sequences share. */
export function commonPrefixLength(a: TokenIds, b: TokenIds): number {
  if (a === b) return a.length;
  if (a instanceof TokenSequence) return a.sharedWith(b);
  if (b instanceof TokenSequence) return b.sharedWith(a);
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a.at(i) !== b.at(i)) return i;
  return length;
}

/** For whoever reads them as an array. */
export const written = (ids: TokenIds): readonly number[] => (Array.isArray(ids) ? ids : [...ids]);
