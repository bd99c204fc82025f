/** How much a store has room for. */
import { ConfigError } from '../errors.ts';

/** Of KV in its parts. */
export const bytesIn = (kv: readonly Uint8Array[]): number => kv.reduce((sum, { length }) => sum + length, 0);

/** A slot has room for a block of any KV cache group. `blockBytes`: by group. */
export const slotBytes = (blockBytes: readonly number[]): number => Math.max(...blockBytes);

/** Blocks for which there is room. Throws ConfigError below one. */
export function slotsIn(bytes: number, blockBytes: readonly number[]): number {
  const block = slotBytes(blockBytes);
  const slots = Math.floor(bytes / block);
  if (slots >= 1) return slots;
  throw new ConfigError(
    `the store has ${bytes} bytes and a block of this model ${block}: give it ${block} or more, or use smaller blocks`,
  );
}
