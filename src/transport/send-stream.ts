/** Sends the blocks of a sequence in the order asked for, each as soon as it is there. Copies nothing: its caller does. */
import { type BlockId, NULL_BLOCK } from '../engine/types.ts';
import type { ChunkPlan } from './chunks.ts';
import type { BlockStream, StreamEnd } from './types.ts';

export interface ChunksToSend {
  chunks: readonly ChunkPlan[];
  /** Called when a chunk will be posted, or the transfer fails. */
  taken?: (chunk: ChunkPlan) => void;
  /** Aborts when the blocks are given back: gathers not yet submitted must not be. */
  revoked?: AbortSignal;
}

export interface StreamSending {
  /** By group, ascending: places in the sequence. */
  blockIndexes: readonly (readonly number[])[];
  stream: BlockStream;
  signal: AbortSignal;
  cut: (blockIds: readonly (readonly BlockId[])[]) => ChunkPlan[];
  /** Rejects when a gather does; what was taken before is on its way all the same. */
  send: (batch: ChunksToSend) => Promise<void>;
}

/** null when all was taken, or the signal aborted; else why the rest will not come. */
export async function sendStream(sending: StreamSending): Promise<StreamEnd | null> {
  const { blockIndexes, stream, signal, cut, send } = sending;
  const sent = blockIndexes.map(() => 0);
  for (;;) {
    const next = Math.min(...blockIndexes.map((list, g) => list[sent[g]!] ?? Number.POSITIVE_INFINITY));
    if (next === Number.POSITIVE_INFINITY) return null;
    const ready = await stream.ready(next, signal);
    if (ready === null || 'outcome' in ready) return ready;
    const { blockIds, numBlocks, revoked } = ready;
    const begun = [...sent];
    const there = blockIndexes.map((list, group) =>
      list
        .slice(begun[group])
        .filter((index) => index < numBlocks)
        .map((index) => blockIds[group]![index]!),
    );
    if (there.some((ids) => ids.includes(NULL_BLOCK)))
      return { outcome: 'failed', message: 'the READ names a block that its window has passed.' };
    const chunks = cut(there).map((chunk) => ({ ...chunk, first: begun[chunk.group]! + chunk.first }));
    const taken = ({ group, blockIds: ids }: ChunkPlan) => {
      sent[group]! += ids.length;
    };
    try {
      await send({ chunks, taken, revoked });
    } catch (error) {
      // Their sequence is computed anew, into other blocks: the rest comes from there.
      if (!revoked.aborted) throw error;
    }
  }
}
