/** What a store's memory is used for, for drawings: cells as those of an engine's pool. */
import { type Occupancy, occupancyOf } from '../engine/inspect/occupancy.ts';

/** A block of it: its slot, from 0 on; whether its bytes have come; who loads it now. */
interface StoredBlock {
  slot: number;
  ready: boolean;
  readers: number;
}

/** used: being read or written. cached: there for who asks. Of so many slots at most so many cells. */
export function storeOccupancy(slots: number, blocks: Iterable<StoredBlock>, mostCells: number): Occupancy {
  const uses = new Map<number, 'used' | 'cached'>();
  for (const { slot, ready, readers } of blocks) uses.set(slot, ready && readers === 0 ? 'cached' : 'used');
  return occupancyOf(slots, mostCells, (id) => uses.get(id - 1) ?? null);
}
