/**
 * Measures how fast blocks move between two idle engines: by a real transfer, and by each half of it separately, alone and
 * while the other engine's half runs.
 */

import { TransferError } from '../errors.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import { type CopyHalf, type HandCopy, overlappingCopies } from '../transport/by-hand.ts';
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
  /** Milliseconds of each round for the same blocks and chunks: the sum of the stages, run one after the other. */
  byHandMs: readonly number[];
  /** The holder's half and the reader's half, each while the other engine is idle. */
  alone: HalfCopies;
  /** Each half while the other engine's half runs. */
  concurrent: HalfCopies;
  descriptors: number;
}

export type HalfCopies = Readonly<Record<CopyHalf, readonly HandCopy[]>>;

export interface CopyRateOptions {
  /** Approximate: rounded to whole blocks, and limited by the pools. */
  bytes: number;
  chunkBytes: number;
  rounds: number;
  /** Rounds before them that are not counted. Default 1: the handshake and first touches of memory. */
  warmUpRounds?: number;
}

/** Copies per half and round while the other half runs. Several, because the first and last run partly alone. */
const CONCURRENT_COPIES = 4;

/**
 * Alternates the ways of measuring, round by round. Afterwards the engines serve any block to any reader: reconfigure them
 * before real use. Throws TransferError.
 */
export async function measureCopyRate(
  holder: ThreadEngine,
  reader: ThreadEngine,
  numBlocks: number,
  options: CopyRateOptions,
): Promise<CopyRate> {
  // Uses blocks of the first KV cache group: other groups may not fill theirs with layers.
  const blockBytes = holder.started.identity.blockBytes[0]!;
  const { chunkBytes, warmUpRounds = 1 } = options;
  const count = Math.max(1, Math.min(numBlocks - 1, Math.round(options.bytes / blockBytes)));
  const blockIds = Array.from({ length: count }, (_, i) => i + 1);
  const pairs: BlockPair[] = blockIds.map((id) => ({ group: 0, remote: id, local: id }));
  await holder.lab.serveAnyBlock();
  const slab = createSlab({ slots: DEFAULT_SLOTS, slotBytes: slotBytesFor(chunkBytes, [blockBytes]) });
  const engines = { out: holder, in: reader };
  const byHand = (half: CopyHalf, copies: number, progress: SharedArrayBuffer | null): Promise<HandCopy[]> =>
    engines[half].lab.copyByHand({ half, slab, blockIds, chunkBytes, copies, progress });
  const rate = { pipelinedMs: [] as number[], byHandMs: [] as number[], descriptors: 0 };
  const alone = { out: [] as HandCopy[], in: [] as HandCopy[] };
  const concurrent = { out: [] as HandCopy[], in: [] as HandCopy[] };
  for (let round = -warmUpRounds; round < options.rounds; round++) {
    const moved = await reader.lab.measureRead(holder.address, pairs);
    if (moved.outcome !== 'done')
      throw new TransferError(`${holder.engineId} to ${reader.engineId}: ${moved.message}`);
    const [out] = (await byHand('out', 1, null)) as [HandCopy];
    const [back] = (await byHand('in', 1, null)) as [HandCopy];
    const shared = new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
    const [outs, backs] = await Promise.all([
      byHand('out', CONCURRENT_COPIES, shared),
      byHand('in', CONCURRENT_COPIES, shared),
    ]);
    if (round < 0) continue;
    rate.pipelinedMs.push(moved.wallMs);
    rate.byHandMs.push(out.deviceMs + out.slabMs + back.slabMs + back.deviceMs);
    rate.descriptors = moved.descriptors;
    alone.out.push(out);
    alone.in.push(back);
    concurrent.out.push(...overlappingCopies(outs, backs));
    concurrent.in.push(...overlappingCopies(backs, outs));
  }
  const ends = { from: holder.engineId, to: reader.engineId, bytes: count * blockBytes, chunkBytes };
  return { ...ends, ...rate, alone, concurrent };
}
