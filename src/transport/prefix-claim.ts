/**
 * What a reader says of the tokens behind another engine's blocks, without showing them: equal claims mean the same number
 * of the same tokens under the same cache salt. Not the block hash chain, which knows whole blocks only and is not kept
 * without a prefix cache.
 */

import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { TokenIds } from '../config/token-ids.ts';

export interface PrefixClaim {
  numTokens: number;
  /** Hex. */
  digest: string;
}

/** Of the first numTokens tokens, or of their number and the salt alone. */
export type ClaimPrefix = (tokenIds: TokenIds, numTokens: number, cacheSalt: string | null) => PrefixClaim;

/** `tokenCheck` false is vLLM's way: the tokens are taken on trust. Both ends must agree on it. */
export const claimPrefix =
  (tokenCheck: boolean): ClaimPrefix =>
  (tokenIds, numTokens, cacheSalt) => {
    const encoded = encode(numTokens, tokenCheck ? tokenIds.slice(0, numTokens) : [], cacheSalt);
    return { numTokens, digest: bytesToHex(sha256(encoded)) };
  };

export const sameClaim = (a: PrefixClaim, b: PrefixClaim): boolean =>
  a.numTokens === b.numTokens && a.digest === b.digest;

/** Makes claims until their code is compiled, about 10 ms: the first turns would pay several times that. */
export function warmUpClaims(): void {
  const tokenIds = Array.from({ length: 256 }, (_, i) => i);
  for (let i = 0; i < 200; i++) claimPrefix(true)(tokenIds, tokenIds.length, null);
}

/** Two counts, then the tokens, as little-endian u32; then a marker and the salt. The counts make it unambiguous. */
function encode(numTokens: number, tokenIds: TokenIds, cacheSalt: string | null): Uint8Array {
  const salt = cacheSalt === null ? null : utf8ToBytes(cacheSalt);
  const saltAt = 4 * (2 + tokenIds.length);
  const bytes = new Uint8Array(saltAt + (salt ? 1 + salt.length : 0));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, numTokens, true);
  view.setUint32(4, tokenIds.length, true);
  let at = 8;
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
