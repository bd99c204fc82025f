/** The quantities that the costs of a pull and of a prefill are proportional to. Does not measure, learn or predict. */

import type { KvCacheSpec } from '../../config/engine.ts';
import { FULL_GROUP, filledBytes, skippedBlocks } from '../../engine/kv-cache-spec.ts';

/** The number of tokens before each of `tokens` tokens from position `start` on, summed: what attention reads. */
export const tokenContext = (start: number, tokens: number): number => tokens * (start + (tokens - 1) / 2);

/** Bytes to transfer for the tokens [start, start + count). `next`: the position computed afterwards. Default: start + count. */
export type KvBytes = (start: number, count: number, next?: number) => number;

/**
 * Counts whole blocks of every KV cache group, including a partly needed first one. A windowed group counts only blocks that
 * the next token sees. A block counts the bytes that its group's layers use. `blockBytes`: size of a block in the pool.
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
