/**
 * A store's key for a block: '<hash>' in KV cache group 0, '<hash>.<group>' in others. Groups have separate keys because they
 * keep different parts of a sequence.
 */
import type { BlockHash } from '../engine/block-hash.ts';

export type StoreKey = string;

export const storeKey = (hash: BlockHash, group: number): StoreKey =>
  group === 0 ? hash : `${hash}.${group}`;

/** Length of a simulation's hashes, in which any character may occur, a dot too. Others are hex digits. */
const SHORT_CHARS = 4;

export function partsOf(key: StoreKey): { hash: BlockHash; group: number } {
  const dot = key.indexOf('.', SHORT_CHARS);
  return dot < 0 ? { hash: key, group: 0 } : { hash: key.slice(0, dot), group: Number(key.slice(dot + 1)) };
}
