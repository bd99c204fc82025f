/**
 * How a store names a block: by its hash, and its KV cache group where that is not the first: '<hash>.<group>'. Of groups that
 * keep different parts of a sequence each is kept by itself.
 */
import type { BlockHash } from '../engine/block-hash.ts';

export type StoreKey = string;

export const storeKey = (hash: BlockHash, group: number): StoreKey =>
  group === 0 ? hash : `${hash}.${group}`;

export function partsOf(key: StoreKey): { hash: BlockHash; group: number } {
  const dot = key.lastIndexOf('.');
  return dot < 0 ? { hash: key, group: 0 } : { hash: key.slice(0, dot), group: Number(key.slice(dot + 1)) };
}
