/** A block's bytes and parts, and how many blocks fit into a store's memory. */
import { ConfigError } from '../errors.ts';
import { sumOf } from '../sum.ts';

/** Total bytes of all parts of a block's KV. */
export const bytesIn = (kv: readonly Uint8Array[]): number => sumOf(kv, ({ length }) => length);

/** Copies a block's KV to its parts. */
export function scatter(kv: Uint8Array, into: readonly Uint8Array[]): void {
  let at = 0;
  for (const part of into) {
    part.set(kv.subarray(at, at + part.length));
    at += part.length;
  }
}

/** Bytes of a slot, with room for a block of any KV cache group. `blockBytes`: by group. */
export const slotBytes = (blockBytes: readonly number[]): number => Math.max(...blockBytes);

/** Number of slots in `bytes` of memory. Throws ConfigError if there is not room for one. */
export function slotsIn(bytes: number, blockBytes: readonly number[]): number {
  const block = slotBytes(blockBytes);
  const slots = Math.floor(bytes / block);
  if (slots >= 1) return slots;
  throw new ConfigError(
    `the store has ${bytes} bytes of memory, but a block of this model takes ${block}: give it ${block} or more, or use smaller blocks`,
  );
}
