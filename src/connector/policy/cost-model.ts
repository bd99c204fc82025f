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
 * one included; of a windowed group none before what the next token sees.
 */
export const blocksOf = (
  start: number,
  count: number,
  blockSize: number,
  groups: readonly KvCacheSpec[] = FULL_GROUP,
): number => {
  const end = start + count;
  return groups.reduce((sum, spec) => {
    const first = Math.max(Math.floor(start / blockSize), skippedBlocks(spec, end, blockSize));
    return sum + Math.max(0, Math.ceil(end / blockSize) - first);
  }, 0);
};
