/** Bytes of KV between engines and the store. */
import type { StoreCounters } from '../connector/types.ts';
import type { EngineStats } from '../host/engine-report.ts';
import { sumOf } from '../sum.ts';

export type StoreBytes = Pick<StoreCounters, 'loadedBytes' | 'savedBytes' | 'twoHopBytes'>;

/** Bytes that all engines moved between two reports; null without a store. */
export function storeBytesBetween(
  before: readonly EngineStats[],
  after: readonly EngineStats[],
): StoreBytes | null {
  if (after.every(({ store }) => !store)) return null;
  const moved = (name: keyof StoreBytes): number => {
    const sum = (engines: readonly EngineStats[]) => sumOf(engines, ({ store }) => store?.[name] ?? 0);
    return sum(after) - sum(before);
  };
  return {
    loadedBytes: moved('loadedBytes'),
    savedBytes: moved('savedBytes'),
    twoHopBytes: moved('twoHopBytes'),
  };
}
