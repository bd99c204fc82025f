/**
 * The hash chain over full blocks. Block i's hash covers its own tokens and all tokens before them, so equal hashes mean
 * equal KV. The rule is vLLM's (vllm/v1/core/kv_cache_utils.py, hash_block_tokens). The encoding is not: the hashes differ
 * from vLLM's.
 */

import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { TokenIds } from '../config/token-ids.ts';

/** Opaque. createBlockHasher's are the digest's hex digits; simulations use short strings. */
export type BlockHash = string;

/** Length of a simulation's hashes: 64 bits, in which any character may occur. Others are longer. */
export const SHORT_HASH_CHARS = 4;

export interface BlockHasher {
  /** The parent of every sequence's first block. */
  readonly root: BlockHash;
  /** `cacheSalt` is hashed into the first block only. Pass null for later blocks: they inherit it from their parent. */
  hash(parent: BlockHash, tokenIds: TokenIds, cacheSalt: string | null): BlockHash;
  /**
   * The hashes of an unsalted sequence's blocks, at least numBlocks of them, if the hasher stores them; else null.
   * The list is shared and immutable.
   */
  stored?(tokenIds: TokenIds, blockSize: number, numBlocks: number): readonly BlockHash[] | null;
}

export interface BlockHashing {
  hasher: BlockHasher;
  /** Tokens. */
  blockSize: number;
}

/** The same seed gives the same hashes in every engine and process. Tests replace `digest`. */
export function createBlockHasher(
  seed: string,
  digest: (bytes: Uint8Array) => Uint8Array = sha256,
): BlockHasher {
  return {
    root: bytesToHex(digest(utf8ToBytes(seed))),
    hash: (parent, tokenIds, cacheSalt) => bytesToHex(digest(encode(parent, tokenIds, cacheSalt))),
  };
}

interface HashedSequence {
  tokenIds: TokenIds;
  cacheSalt: string | null;
}

/** Hashes of at least a sequence's first numBlocks blocks, all full, if the hasher stores them; else null. */
export const keptHashes = (
  { tokenIds, cacheSalt }: HashedSequence,
  { hasher, blockSize }: BlockHashing,
  numBlocks: number,
): readonly BlockHash[] | null =>
  (cacheSalt === null && hasher.stored?.(tokenIds, blockSize, numBlocks)) || null;

/** Appends the hashes of further full blocks, up to numBlocks in all. */
export function extendHashes(
  hashes: BlockHash[],
  sequence: HashedSequence,
  hashing: BlockHashing,
  numBlocks: number,
): void {
  const { tokenIds, cacheSalt } = sequence;
  const { hasher, blockSize } = hashing;
  const full = Math.min(numBlocks, Math.floor(tokenIds.length / blockSize));
  if (hashes.length >= full) return;
  const stored = keptHashes(sequence, hashing, full);
  if (stored) {
    for (let i = hashes.length; i < full; i++) hashes.push(stored[i]!);
    return;
  }
  for (let i = hashes.length; i < full; i++) {
    const tokens = tokenIds.slice(i * blockSize, (i + 1) * blockSize);
    const first = i === 0;
    hashes.push(hasher.hash(first ? hasher.root : hashes[i - 1]!, tokens, first ? cacheSalt : null));
  }
}

/** Parent digits, token ids as little-endian u32, then a marker and the salt. Unambiguous: blocks have equal length. */
function encode(parent: BlockHash, tokenIds: TokenIds, cacheSalt: string | null): Uint8Array {
  const salt = cacheSalt === null ? null : utf8ToBytes(cacheSalt);
  const tokensAt = parent.length;
  const saltAt = tokensAt + 4 * tokenIds.length;
  const bytes = new Uint8Array(saltAt + (salt ? 1 + salt.length : 0));
  for (let i = 0; i < parent.length; i++) bytes[i] = parent.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  let at = tokensAt;
  for (const id of tokenIds) {
    view.setUint32(at, id, true);
    at += 4;
  }
  if (salt) {
    bytes[saltAt] = 1;
    bytes.set(salt, saltAt + 1);
  }
  return bytes;
}
