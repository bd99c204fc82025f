/** The coefficients of what a pull and a prefill take, and what some of them are multiplied with. Who measures, learns and predicts is elsewhere. */

import type { KvCacheSpec } from '../../config/engine.ts';
import { FULL_GROUP, filledBytes, skippedBlocks } from '../../engine/kv-cache-spec.ts';

/** Milliseconds: fixed + perByte * bytes + perHolderRequest * requests that the holder serves. */
export interface TransferCosts {
  fixedMs: number;
  msPerByte: number;
  msPerHolderRequest: number;
}

/** Milliseconds: fixed (of a step, or of a turn) + perToken * tokens + perTokenContext * tokenContext. */
export interface PrefillCosts {
  fixedMs: number;
  msPerToken: number;
  msPerTokenContext: number;
}

/** Sum over `tokens` tokens from position `start` on of how many tokens stand before each: what attention reads. */
export const tokenContext = (start: number, tokens: number): number => tokens * (start + (tokens - 1) / 2);

/** Bytes that move with the tokens [start, start + count), where the token at `next` is computed then: the one after them. */
export type KvBytes = (start: number, count: number, next?: number) => number;

/**
 * Of whole blocks of every KV cache group, a partly filled first one included; of a windowed group none before what the next
 * token sees; of each block what the group's layers take. `blockBytes`: of a block in the pool.
 */
export function kvBytesOf(
  blockSize: number,
  blockBytes: number,
  groups: readonly KvCacheSpec[] = FULL_GROUP,
): KvBytes {
  const bytes = groups.map((spec) => filledBytes(spec, blockBytes));
  return (start, count, next = start + count) => {
    const begin = Math.floor(start / blockSize);
    const end = Math.ceil((start + count) / blockSize);
    let sum = 0;
    for (let group = 0; group < groups.length; group++) {
      const first = Math.max(begin, skippedBlocks(groups[group]!, next, blockSize));
      sum += Math.max(0, end - first) * bytes[group]!;
    }
    return sum;
  };
}
