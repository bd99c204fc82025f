/** How fast blocks travel between two engines: pipelined as in a real transfer, and the same stages by hand. The engines must be idle. */
import type { BlockPair } from '../engine/types.ts';
import { TransferError } from '../errors.ts';
import type { TransferResult } from '../transport/types.ts';
import type { EngineHandle } from './engine-handle.ts';

export interface CopyRate {
  from: string;
  to: string;
  bytes: number;
  chunkBytes: number;
  /** Milliseconds of each round. */
  pipelinedMs: readonly number[];
  /** The same blocks and chunks, one stage after the other: the sum of the stages, without what lies between them. */
  byHandMs: readonly number[];
  descriptors: number;
}

export interface CopyRateOptions {
  /** About so many; whole blocks, as far as the pools reach. */
  bytes: number;
  chunkBytes: number;
  rounds: number;
}

/** Alternates the two ways, round by round. Leaves the engines serving anything: reconfigure them before real work. */
export async function measureCopyRate(
  holder: EngineHandle,
  reader: EngineHandle,
  numBlocks: number,
  options: CopyRateOptions,
): Promise<CopyRate> {
  const { blockBytes } = holder.started;
  const count = Math.max(1, Math.min(numBlocks - 1, Math.round(options.bytes / blockBytes)));
  const ids = Array.from({ length: count }, (_, i) => i + 1);
  const pairs: BlockPair[] = ids.map((id) => ({ group: 0, remote: id, local: id }));
  await holder.call((api) => api.serveAnyBlock());
  const slab = new SharedArrayBuffer(count * blockBytes);
  const rate = { pipelinedMs: [] as number[], byHandMs: [] as number[], descriptors: 0 };
  // Round 0 grows the staging rings and is not counted.
  for (let round = 0; round <= options.rounds; round++) {
    const moved = await reader.call((api) => api.measureRead(holder.address, pairs));
    if (moved.outcome !== 'done')
      throw new TransferError(`${holder.engineId} to ${reader.engineId}: ${moved.message}`);
    const byHand = await handOver(holder, reader, slab, ids, options.chunkBytes);
    if (round === 0) continue;
    rate.pipelinedMs.push(moved.wallMs);
    rate.byHandMs.push(byHand);
    rate.descriptors = (moved satisfies TransferResult).descriptors;
  }
  return {
    from: holder.engineId,
    to: reader.engineId,
    bytes: count * blockBytes,
    chunkBytes: options.chunkBytes,
    ...rate,
  };
}

async function handOver(
  holder: EngineHandle,
  reader: EngineHandle,
  slab: SharedArrayBuffer,
  ids: readonly number[],
  chunkBytes: number,
): Promise<number> {
  const out = await holder.call((api) => api.copyByHand('out', slab, ids, chunkBytes));
  const back = await reader.call((api) => api.copyByHand('in', slab, ids, chunkBytes));
  return out.deviceMs + out.slabMs + back.slabMs + back.deviceMs;
}
