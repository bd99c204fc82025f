/**
 * A reader's claim about the tokens behind another engine's blocks, as a digest. Equal claims mean the same tokens under the
 * same cache salt. The block hash chain would not do: it covers only full blocks, and is not kept without a prefix cache.
 */

import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { TokenIds } from '../config/token-ids.ts';

export interface PrefixClaim {
  numTokens: number;
  /** SHA-256, as 64 hex digits. */
  digest: string;
}

/** Claims the first numTokens tokens; without the token check, only their number and the salt. */
export type ClaimPrefix = (tokenIds: TokenIds, numTokens: number, cacheSalt: string | null) => PrefixClaim;

/** `tokenCheck` false: tokens are trusted, as in vLLM. Both ends must use the same setting. */
export const claimPrefix =
  (tokenCheck: boolean): ClaimPrefix =>
  (tokenIds, numTokens, cacheSalt) => {
    const encoded = encode(numTokens, tokenCheck ? tokenIds.slice(0, numTokens) : [], cacheSalt);
    return { numTokens, digest: bytesToHex(sha256(encoded)) };
  };

export const sameClaim = (a: PrefixClaim, b: PrefixClaim): boolean =>
  a.numTokens === b.numTokens && a.digest === b.digest;

/** Computes claims until their code is compiled (about 10 ms). Otherwise the first turns would pay several times that. */
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
