/**
 * How fast blocks travel between two engines: as in a real transfer, and each half of it by hand, alone and beside the
 * other engine's. The engines must be idle.
 */

import { TransferError } from '../errors.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import { type CopyHalf, copiesBeside, type HandCopy } from '../transport/by-hand.ts';
import { createSlab, slotBytesFor } from '../transport/slab.ts';
import { DEFAULT_SLOTS } from '../transport/transport.ts';
import type { BlockPair } from '../transport/types.ts';

export interface CopyRate {
  from: string;
  to: string;
  bytes: number;
  chunkBytes: number;
  /** Milliseconds of each round. */
  pipelinedMs: readonly number[];
  /** The same blocks and chunks, one stage after the other: the sum of the stages, without what lies between them. */
  byHandMs: readonly number[];
  /** The holder's half and the reader's, each while the other engine does nothing. */
  alone: HalfCopies;
  /** Each while the other engine's half runs. */
  beside: HalfCopies;
  descriptors: number;
}

export type HalfCopies = Readonly<Record<CopyHalf, readonly HandCopy[]>>;

export interface CopyRateOptions {
  /** About so many; whole blocks, as far as the pools reach. */
  bytes: number;
  chunkBytes: number;
  rounds: number;
}

/** So many copies a half makes beside the other's in a round, at least: the first and last are partly alone. */
const COPIES_BESIDE = 4;

/** Alternates the ways, round by round. Leaves the engines serving anything: reconfigure them before real work. */
export async function measureCopyRate(
  holder: ThreadEngine,
  reader: ThreadEngine,
  numBlocks: number,
  options: CopyRateOptions,
): Promise<CopyRate> {
  // Blocks of the first group: not all of them are full of layers.
  const blockBytes = holder.started.identity.blockBytes[0]!;
  const { chunkBytes } = options;
  const count = Math.max(1, Math.min(numBlocks - 1, Math.round(options.bytes / blockBytes)));
  const blockIds = Array.from({ length: count }, (_, i) => i + 1);
  const pairs: BlockPair[] = blockIds.map((id) => ({ group: 0, remote: id, local: id }));
  await holder.lab.serveAnyBlock();
  const slab = createSlab({ slots: DEFAULT_SLOTS, slotBytes: slotBytesFor(chunkBytes, [blockBytes]) });
  const engines = { out: holder, in: reader };
  const byHand = (half: CopyHalf, copies: number, beside: SharedArrayBuffer | null): Promise<HandCopy[]> =>
    engines[half].lab.copyByHand({ half, slab, blockIds, chunkBytes, copies, beside });
  const rate = { pipelinedMs: [] as number[], byHandMs: [] as number[], descriptors: 0 };
  const alone = { out: [] as HandCopy[], in: [] as HandCopy[] };
  const beside = { out: [] as HandCopy[], in: [] as HandCopy[] };
  // Round 0 makes the handshake, touches memory for the first time, and is not counted.
  for (let round = 0; round <= options.rounds; round++) {
    const moved = await reader.lab.measureRead(holder.address, pairs);
    if (moved.outcome !== 'done')
      throw new TransferError(`${holder.engineId} to ${reader.engineId}: ${moved.message}`);
    const [out] = (await byHand('out', 1, null)) as [HandCopy];
    const [back] = (await byHand('in', 1, null)) as [HandCopy];
    const made = new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
    const [outs, backs] = await Promise.all([
      byHand('out', COPIES_BESIDE, made),
      byHand('in', COPIES_BESIDE, made),
    ]);
    if (round === 0) continue;
    rate.pipelinedMs.push(moved.wallMs);
    rate.byHandMs.push(out.deviceMs + out.slabMs + back.slabMs + back.deviceMs);
    rate.descriptors = moved.descriptors;
    alone.out.push(out);
    alone.in.push(back);
    beside.out.push(...copiesBeside(outs, backs));
    beside.in.push(...copiesBeside(backs, outs));
  }
  const ends = { from: holder.engineId, to: reader.engineId, bytes: count * blockBytes, chunkBytes };
  return { ...ends, ...rate, alone, beside };
}
