/** What a pool's blocks are used for, aggregated into a bounded number of cells for drawing. Changes nothing. */
import type { KvCacheManager } from '../kv-cache-manager.ts';
import type { HeldBlocks } from '../kv-connector.ts';
import { type BlockId, NULL_BLOCK } from '../types.ts';

/** One entry per cell of blocksPerCell blocks, in order of block id. Values are shares of 255; the remainder is free. */
export interface Occupancy {
  blocksPerCell: number;
  /** In use by requests that have not ended. */
  used: Uint8Array;
  /** Held for a reader after their requests ended. */
  held: Uint8Array;
  /** Free, but still in the prefix cache: can be hit until allocated again. */
  cached: Uint8Array;
}

const WHOLE = 255;

type Use = 'used' | 'held' | 'cached';

export function occupancy(cache: KvCacheManager, holds: readonly HeldBlocks[], mostCells: number): Occupancy {
  const holders = new Map<number, number>();
  for (const { blockIds } of holds)
    for (const id of blockIds.flat()) if (id !== NULL_BLOCK) holders.set(id, (holders.get(id) ?? 0) + 1);
  return occupancyOf(cache.numUsable, mostCells, (id) => {
    const { refCount, hash } = cache.blockState(id);
    if (refCount > (holders.get(id) ?? 0)) return 'used';
    if (refCount > 0) return 'held';
    return hash === null ? null : 'cached';
  });
}

/** `blocks`: pool size without the null block. `useOf` returns null for a free block without a hash. */
export function occupancyOf(
  blocks: number,
  mostCells: number,
  useOf: (id: BlockId) => Use | null,
): Occupancy {
  const blocksPerCell = Math.max(1, Math.ceil(blocks / mostCells));
  const cells = Math.ceil(blocks / blocksPerCell);
  const counts: Record<Use, Uint32Array> = {
    used: new Uint32Array(cells),
    held: new Uint32Array(cells),
    cached: new Uint32Array(cells),
  };
  for (let id = NULL_BLOCK + 1; id <= blocks; id++) {
    const of = useOf(id);
    if (of) counts[of][Math.floor((id - 1) / blocksPerCell)]!++;
  }
  // The last cell may have fewer blocks.
  const share = (count: number, cell: number): number =>
    Math.round((WHOLE * count) / Math.min(blocksPerCell, blocks - cell * blocksPerCell));
  const shares = (of: Use): Uint8Array => Uint8Array.from(counts[of], share);
  return { blocksPerCell, used: shares('used'), held: shares('held'), cached: shares('cached') };
}
