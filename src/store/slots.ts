/** How much a store has room for. */
import { ConfigError } from '../errors.ts';

/** Blocks, of any KV cache group, for which there is room. Throws ConfigError below one. */
export function slotsIn(bytes: number, blockBytes: readonly number[]): number {
  const block = Math.max(...blockBytes);
  const slots = Math.floor(bytes / block);
  if (slots >= 1) return slots;
  throw new ConfigError(
    `the store has ${bytes} bytes and a block of this model ${block}: give it ${block} or more, or use smaller blocks`,
  );
}
