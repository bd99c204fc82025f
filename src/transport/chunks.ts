/** Cuts the blocks of a READ into chunks. A chunk is whole blocks of one group: at most maxChunkBytes, but at least one block. */
import type { BlockId } from '../engine/types.ts';

/** Default maximum size of a chunk, unless one block is larger. */
export const DEFAULT_CHUNK_BYTES = 2 * 2 ** 20;

export interface ChunkPlan {
  group: number;
  /** Index of the chunk's first block in its group's list. */
  first: number;
  blockIds: readonly BlockId[];
  byteLength: number;
}

export function cutIntoChunks(
  blockIds: readonly (readonly BlockId[])[],
  blockBytes: readonly number[],
  maxChunkBytes: number,
): ChunkPlan[] {
  const chunks: ChunkPlan[] = [];
  for (const [group, ids] of blockIds.entries()) {
    const bytes = blockBytes[group]!;
    const blocksPerChunk = Math.max(1, Math.floor(maxChunkBytes / bytes));
    for (let first = 0; first < ids.length; first += blocksPerChunk) {
      const part = ids.slice(first, first + blocksPerChunk);
      chunks.push({ group, first, blockIds: part, byteLength: part.length * bytes });
    }
  }
  return chunks;
}
