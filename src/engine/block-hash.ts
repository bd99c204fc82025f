/**
 * The hash chain over full blocks: block i's hash covers its tokens and everything before them, so equal hashes mean
 * equal KV. Same rule as vLLM (vllm/v1/core/kv_cache_utils.py, hash_block_tokens), with an encoding of our own.
 */

import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { TokenIds } from '../config/token-ids.ts';

/** Hex digits of the digest. */
export type BlockHash = string;

export interface BlockHasher {
  /** Parent of every first block. */
  readonly root: BlockHash;
  /** `cacheSalt` belongs to the first block only: null for the others, which inherit it through their parent. */
  hash(parent: BlockHash, tokenIds: TokenIds, cacheSalt: string | null): BlockHash;
  /**
   * Appends the hashes of a sequence's further blocks, up to numBlocks in all, without a salt, where it knows how to make them
   * together; false, and nothing done: it does not.
   */
  extend?(hashes: BlockHash[], tokenIds: TokenIds, blockSize: number, numBlocks: number): boolean;
}

export interface BlockHashing {
  hasher: BlockHasher;
  /** Tokens. */
  blockSize: number;
}

/** The same seed gives the same hashes everywhere. `digest` is replaced in tests. */
export function createBlockHasher(
  seed: string,
  digest: (bytes: Uint8Array) => Uint8Array = sha256,
): BlockHasher {
  return {
    root: bytesToHex(digest(utf8ToBytes(seed))),
    hash: (parent, tokenIds, cacheSalt) => bytesToHex(digest(encode(parent, tokenIds, cacheSalt))),
  };
}

/** Appends the hashes of further full blocks, up to numBlocks in all. */
export function extendHashes(
  hashes: BlockHash[],
  { tokenIds, cacheSalt }: { tokenIds: TokenIds; cacheSalt: string | null },
  { hasher, blockSize }: BlockHashing,
  numBlocks: number,
): void {
  const full = Math.min(numBlocks, Math.floor(tokenIds.length / blockSize));
  if (hashes.length >= full) return;
  if (cacheSalt === null && hasher.extend?.(hashes, tokenIds, blockSize, full)) return;
  for (let i = hashes.length; i < full; i++) {
    const tokens = tokenIds.slice(i * blockSize, (i + 1) * blockSize);
    const first = i === 0;
    hashes.push(hasher.hash(first ? hasher.root : hashes[i - 1]!, tokens, first ? cacheSalt : null));
  }
}

/** Parent digits, token ids as little-endian u32, then a marker and the salt. Blocks have one length, so this is unambiguous. */
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
