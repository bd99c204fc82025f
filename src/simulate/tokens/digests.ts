/**
 * Digests for a simulation, whose tokens nobody forges: 64 bits mixed from the tokens in place of SHA-256. Claims of a
 * list are remembered. Two digests are equal where the real ones are.
 */
import type { TokenIds } from '../../config/token-ids.ts';
import type { BlockHasher } from '../../engine/block-hash.ts';
import type { ClaimPrefix, PrefixClaim } from '../../transport/prefix-claim.ts';
import { type DigestChain, SegmentedTokens } from './segmented-tokens.ts';

/** Two 32-bit words as four characters: short, and readable back. */
const digestOf = (a: number, b: number): string =>
  String.fromCharCode(a >>> 16, a & 0xffff, b >>> 16, b & 0xffff);

const firstWord = (digest: string): number => (digest.charCodeAt(0) << 16) | digest.charCodeAt(1);
const secondWord = (digest: string): number => (digest.charCodeAt(2) << 16) | digest.charCodeAt(3);

const ROOT = digestOf(0x6b766665, 0x72727921);

/**
 * Computes one digest at a time; a single instance serves all.
 * A block that continues the content of the block before it gets that block's second word plus one. Tables are keyed by
 * this word, so the entries of a sequence lie side by side in memory.
 */
class Mixer implements DigestChain {
  readonly root = ROOT;
  #a = 0;
  #b = 0;
  /** Second word of the parent digest; null if the block does not continue its content. */
  #before: number | null = null;
  #isFirst = true;

  begin(from: string): void {
    this.#a = firstWord(from);
    this.#b = secondWord(from);
    this.#before = null;
    this.#isFirst = true;
  }

  add(key: number, place: number, length: number): void {
    // Only within a content: where sequences part, all would otherwise have the same words from there.
    this.#before = this.#isFirst && place > 0 ? this.#b : null;
    this.#isFirst = false;
    this.word(key | 0);
    this.word(Math.floor(key / 2 ** 32));
    this.word(place);
    this.word(length);
  }

  word(word: number): void {
    const a = Math.imul(this.#a ^ word, 0x9e3779b1);
    const b = this.#b;
    this.#a = (a << 13) | (a >>> 19);
    this.#b = Math.imul((b + word) ^ (b >>> 15), 0x85ebca77);
  }

  salt(salt: string): void {
    for (let i = 0; i < salt.length; i++) {
      this.#a = Math.imul(this.#a ^ (salt.charCodeAt(i) + 0x10000), 0xc2b2ae3d);
      this.#b = Math.imul(this.#b ^ this.#a, 0x27d4eb2f);
    }
  }

  end(): string {
    const a = Math.imul(this.#a ^ (this.#a >>> 16) ^ this.#b, 0x85ebca6b);
    if (this.#before !== null) return digestOf(a ^ (a >>> 15), this.#before + 1);
    const b = Math.imul(this.#b ^ (this.#b >>> 13) ^ a, 0xc2b2ae35);
    return digestOf(a ^ (a >>> 15), b ^ (b >>> 16));
  }
}

const mixer = new Mixer();
const addRun = (key: number, place: number, length: number): void => mixer.add(key, place, length);

/** Digest of the tokens [0, count), chained to the digest `from`. */
function mixed(from: string, tokenIds: TokenIds, count: number, salt: string | null): string {
  mixer.begin(from);
  if (tokenIds instanceof SegmentedTokens) tokenIds.eachRun(count, addRun);
  else for (let i = 0; i < count; i++) mixer.word(tokenIds.at(i)!);
  if (salt !== null) mixer.salt(salt);
  return mixer.end();
}

export const simulatedHasher: BlockHasher = {
  root: ROOT,
  hash: (parent, tokenIds, cacheSalt) => mixed(parent, tokenIds, tokenIds.length, cacheSalt),
  stored: (tokenIds, blockSize, numBlocks) =>
    tokenIds instanceof SegmentedTokens ? tokenIds.digests(blockSize, numBlocks, mixer) : null,
};

/** Remembers the claims of each list. `tokenCheck` false: claims do not cover the tokens, which are taken on trust. */
export function simulatedClaims(tokenCheck: boolean): ClaimPrefix {
  const known = new WeakMap<TokenIds, PrefixClaim[]>();
  return (tokenIds, numTokens, cacheSalt) => {
    if (cacheSalt !== null || tokenIds instanceof SegmentedTokens)
      return newClaim(tokenCheck, tokenIds, numTokens, cacheSalt);
    const claims = known.get(tokenIds) ?? [];
    known.set(tokenIds, claims);
    let claim = claims.find((each) => each.numTokens === numTokens);
    if (!claim) {
      claim = newClaim(tokenCheck, tokenIds, numTokens, null);
      claims.push(claim);
    }
    return claim;
  };
}

const newClaim = (
  check: boolean,
  tokenIds: TokenIds,
  numTokens: number,
  salt: string | null,
): PrefixClaim => {
  return { numTokens, digest: mixed(ROOT, tokenIds, check ? Math.min(numTokens, tokenIds.length) : 0, salt) };
};
