/** Checks that a READ is well-formed. Authorisation is the gate's task. */
import type { BlockId } from '../engine/types.ts';
import type { ReadMessage, StreamMessage } from './messages.ts';

/** Why a READ is malformed, in one sentence; null if it is not. `numBlocks`: the holder's, by KV cache group. */
export function impossibleRead(
  read: ReadMessage | StreamMessage,
  numBlocks: readonly number[],
): string | null {
  const groups = (read.kind === 'stream' ? read.blockIndexes : read.blockIds).length;
  if (groups > numBlocks.length) {
    return `the READ names KV cache group ${groups - 1}; the holder has ${numBlocks.length} group(s).`;
  }
  if (read.kind === 'stream') {
    const ascending = (list: readonly number[]) =>
      list.every((place, i) => Number.isInteger(place) && place > (list[i - 1] ?? -1));
    return read.blockIndexes.every(ascending) ? null : 'the READ names blocks out of order.';
  }
  for (const [group, ids] of read.blockIds.entries()) {
    const wrong = ids.find((id: BlockId) => !(Number.isInteger(id) && id > 0 && id < numBlocks[group]!));
    if (wrong !== undefined) {
      return `the READ names block ${wrong} of group ${group}; the holder's blocks are 1 to ${numBlocks[group]! - 1}.`;
    }
  }
  return null;
}
