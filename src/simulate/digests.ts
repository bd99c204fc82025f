/**
 * Digests for a simulation, whose tokens nobody forges: 64 bits mixed from the tokens in place of SHA-256, and those of a list
 * that is asked for again are known. Equal where the real ones are.
 */
import type { TokenIds } from '../config/token-ids.ts';
import type { BlockHasher } from '../engine/block-hash.ts';
import type { ClaimPrefix, PrefixClaim } from '../transport/prefix-claim.ts';
import { SegmentedTokens } from './segmented-tokens.ts';

/** Two words as four characters: short, and read back from them. */
const digestOf = (a: number, b: number): string =>
  String.fromCharCode(a >>> 16, a & 0xffff, b >>> 16, b & 0xffff);

const firstWord = (digest: string): number => (digest.charCodeAt(0) << 16) | digest.charCodeAt(1);
const secondWord = (digest: string): number => (digest.charCodeAt(2) << 16) | digest.charCodeAt(3);

/** Of the tokens [0, count), on from a digest. */
function mixed(from: string, tokenIds: TokenIds, count: number, salt: string | null): string {
  let a = firstWord(from);
  let b = secondWord(from);
  const mix = (word: number): void => {
    a = Math.imul(a ^ word, 0x9e3779b1);
    a = (a << 13) | (a >>> 19);
    b = Math.imul((b + word) ^ (b >>> 15), 0x85ebca77);
  };
  if (tokenIds instanceof SegmentedTokens)
    tokenIds.eachRun(count, (key, place, length) => {
      mix(key | 0);
      mix(Math.floor(key / 2 ** 32));
      mix(place);
      mix(length);
    });
  else for (let i = 0; i < count; i++) mix(tokenIds.at(i)!);
  for (let i = 0; salt !== null && i < salt.length; i++) {
    a = Math.imul(a ^ (salt.charCodeAt(i) + 0x10000), 0xc2b2ae3d);
    b = Math.imul(b ^ a, 0x27d4eb2f);
  }
  a = Math.imul(a ^ (a >>> 16) ^ b, 0x85ebca6b);
  b = Math.imul(b ^ (b >>> 13) ^ a, 0xc2b2ae35);
  return digestOf(a ^ (a >>> 15), b ^ (b >>> 16));
}

const digestOfBlock = (parent: string, block: SegmentedTokens): string =>
  mixed(parent, block, block.length, null);

const ROOT = digestOf(0x6b766665, 0x72727921);

export const simulatedHasher: BlockHasher = {
  root: ROOT,
  hash: (parent, tokenIds, cacheSalt) => mixed(parent, tokenIds, tokenIds.length, cacheSalt),
  chain: (tokenIds, blockSize, numBlocks) =>
    tokenIds instanceof SegmentedTokens ? tokenIds.digests(blockSize, numBlocks, ROOT, digestOfBlock) : null,
};

/** Remembers what it made of each list; `tokenCheck` false: the tokens are taken on trust. */
export function simulatedClaims(tokenCheck: boolean): ClaimPrefix {
  const known = new WeakMap<TokenIds, PrefixClaim[]>();
  return (tokenIds, numTokens, cacheSalt) => {
    if (cacheSalt !== null || tokenIds instanceof SegmentedTokens)
      return made(tokenCheck, tokenIds, numTokens, cacheSalt);
    const claims = known.get(tokenIds) ?? [];
    known.set(tokenIds, claims);
    let claim = claims.find((each) => each.numTokens === numTokens);
    if (!claim) {
      claim = made(tokenCheck, tokenIds, numTokens, null);
      claims.push(claim);
    }
    return claim;
  };
}

const made = (check: boolean, tokenIds: TokenIds, numTokens: number, salt: string | null): PrefixClaim => {
  return { numTokens, digest: mixed(ROOT, tokenIds, check ? Math.min(numTokens, tokenIds.length) : 0, salt) };
};
