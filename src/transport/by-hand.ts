/**
 * The stages of a transfer one after the other, in one thread at a time and nothing overlapping: what a pipelined
 * transfer is compared with. For measurements only.
 */
import type { BlockId, Clock } from '../engine/types.ts';
import type { BlockMemory } from './types.ts';

export interface ByHandTimes {
  /** Device to mapped memory, or mapped memory to device; milliseconds. */
  deviceMs: number;
  /** Mapped memory to slab, or slab to mapped memory; milliseconds. */
  slabMs: number;
}

/** Copies the blocks of group 0 into the slab, from its start, in chunks of whole blocks. */
export async function copyOutByHand(
  memory: BlockMemory,
  slab: SharedArrayBuffer,
  blockIds: readonly BlockId[],
  chunkBytes: number,
  clock: Clock,
): Promise<ByHandTimes> {
  const times: ByHandTimes = { deviceMs: 0, slabMs: 0 };
  for (const { ids, offset } of chunks(memory, blockIds, chunkBytes)) {
    const begun = clock.now();
    const gathered = await memory.gather(0, ids);
    const mapped = clock.now();
    new Uint8Array(slab, offset, gathered.bytes.byteLength).set(gathered.bytes);
    times.deviceMs += mapped - begun;
    times.slabMs += clock.now() - mapped;
    gathered.release();
  }
  return times;
}

/** The way back: from the slab's start into the blocks. */
export async function copyInByHand(
  memory: BlockMemory,
  slab: SharedArrayBuffer,
  blockIds: readonly BlockId[],
  chunkBytes: number,
  clock: Clock,
): Promise<ByHandTimes> {
  const times: ByHandTimes = { deviceMs: 0, slabMs: 0 };
  for (const { ids, offset } of chunks(memory, blockIds, chunkBytes)) {
    const begun = clock.now();
    const staged = await memory.stage(ids.length * memory.blockBytes[0]!);
    const mapped = clock.now();
    staged.bytes.set(new Uint8Array(slab, offset, staged.bytes.byteLength));
    const copied = clock.now();
    await staged.commit(0, ids);
    times.slabMs += copied - mapped;
    times.deviceMs += mapped - begun + (clock.now() - copied);
  }
  return times;
}

function* chunks(
  memory: BlockMemory,
  blockIds: readonly BlockId[],
  chunkBytes: number,
): Generator<{ ids: readonly BlockId[]; offset: number }> {
  const blockBytes = memory.blockBytes[0]!;
  const perChunk = Math.max(1, Math.floor(chunkBytes / blockBytes));
  for (let i = 0; i < blockIds.length; i += perChunk) {
    yield { ids: blockIds.slice(i, i + perChunk), offset: i * blockBytes };
  }
}
