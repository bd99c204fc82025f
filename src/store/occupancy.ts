/** What a store's memory is used for, aggregated into cells for drawing, like an engine's pool. */
import { type Occupancy, occupancyOf } from '../engine/inspect/occupancy.ts';

/** A block: its slot (from 0), whether its bytes have arrived, and how many loads are in progress. */
interface StoredBlock {
  slot: number;
  ready: boolean;
  readers: number;
}

/** used: being read or written. cached: present and idle. At most `mostCells` cells. */
export function storeOccupancy(slots: number, blocks: Iterable<StoredBlock>, mostCells: number): Occupancy {
  const uses = new Map<number, 'used' | 'cached'>();
  for (const { slot, ready, readers } of blocks) uses.set(slot, ready && readers === 0 ? 'cached' : 'used');
  return occupancyOf(slots, mostCells, (id) => uses.get(id - 1) ?? null);
}
