/** Sends the requested blocks of a sequence in order, each as soon as it is computed. The copying is done by `send`. */
import { type BlockId, NULL_BLOCK } from '../engine/types.ts';
import type { ChunkPlan } from './chunks.ts';
import type { BlockStream, StreamEnd } from './types.ts';

export interface ChunksToSend {
  chunks: readonly ChunkPlan[];
  /** Called once it is certain that the chunk will be posted, unless the transfer fails. */
  taken?: (chunk: ChunkPlan) => void;
  /** Aborted when the blocks are freed: no further gathers may be submitted. */
  revoked?: AbortSignal;
}

export interface StreamSending {
  /** By group, ascending: block indexes in the sequence. */
  blockIndexes: readonly (readonly number[])[];
  stream: BlockStream;
  signal: AbortSignal;
  cut: (blockIds: readonly (readonly BlockId[])[]) => ChunkPlan[];
  /** Rejects if a gather does. Chunks taken before that are still posted. */
  send: (batch: ChunksToSend) => Promise<void>;
}

/** Resolves to null if everything was sent or the signal aborted; else to why the rest will not come. */
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
      return { outcome: 'failed', message: 'the READ names a block that the window has moved past.' };
    const chunks = cut(there).map((chunk) => ({ ...chunk, first: begun[chunk.group]! + chunk.first }));
    const taken = ({ group, blockIds: ids }: ChunkPlan) => {
      sent[group]! += ids.length;
    };
    try {
      await send({ chunks, taken, revoked });
    } catch (error) {
      // The sequence is being recomputed into other blocks; the rest comes from those.
      if (!revoked.aborted) throw error;
    }
  }
}
