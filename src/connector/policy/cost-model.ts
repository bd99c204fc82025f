/** The coefficients of what a pull and a prefill take, and what some of them are multiplied with. Who measures, learns and predicts is elsewhere. */

import type { KvCacheSpec } from '../../config/engine.ts';
import { FULL_GROUP, skippedBlocks } from '../../engine/kv-cache-spec.ts';

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

/**
 * Blocks that a pull of the tokens [start, start + count) moves, of all KV cache groups: whole blocks, a partly filled first
 * one included; of a windowed group none before what the token at `next` sees, which is computed then.
 */
export function blocksOf(
  start: number,
  count: number,
  blockSize: number,
  groups: readonly KvCacheSpec[] = FULL_GROUP,
  next = start + count,
): number {
  const begin = Math.floor(start / blockSize);
  const end = Math.ceil((start + count) / blockSize);
  let blocks = 0;
  for (const spec of groups)
    blocks += Math.max(0, end - Math.max(begin, skippedBlocks(spec, next, blockSize)));
  return blocks;
}

/** Bytes that move with the tokens [start, start + count), where the token at `next` is computed then: the one after them. */
export type KvBytes = (start: number, count: number, next?: number) => number;

/** `blockBytes`: of a block, whichever group has it. */
export const kvBytesOf =
  (blockSize: number, blockBytes: number, groups: readonly KvCacheSpec[] = FULL_GROUP): KvBytes =>
  (start, count, next) =>
    blocksOf(start, count, blockSize, groups, next) * blockBytes;
