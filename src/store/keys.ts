/**
 * A store's key for a block: '<hash>' in KV cache group 0, '<hash>.<group>' in others. Groups have separate keys because they
 * keep different parts of a sequence.
 */
import { type BlockHash, SHORT_HASH_CHARS } from '../engine/block-hash.ts';

export type StoreKey = string;

export const storeKey = (hash: BlockHash, group: number): StoreKey =>
  group === 0 ? hash : `${hash}.${group}`;

export function partsOf(key: StoreKey): { hash: BlockHash; group: number } {
  // A simulation's hash may contain a dot.
  const dot = key.indexOf('.', SHORT_HASH_CHARS);
  return dot < 0 ? { hash: key, group: 0 } : { hash: key.slice(0, dot), group: Number(key.slice(dot + 1)) };
}
