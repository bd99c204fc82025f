/**
 * Deliberate damage, for proving that wrong KV is noticed: wraps the memory that a reader writes into. Only the first
 * committed chunk is damaged. Never part of normal work.
 */
import type { BlockId } from '../engine/types.ts';
import type { BlockMemory, StagedBlocks } from './types.ts';

export type FaultKind = 'drop-block' | 'swap-blocks' | 'shift-token' | 'flip-bit';

/** `tokenBytes`: bytes of one slot of one head, the distance by which 'shift-token' moves a block's content. */
export function withFault(memory: BlockMemory, kind: FaultKind, tokenBytes: number): BlockMemory {
  let armed = true;
  return {
    blockBytes: memory.blockBytes,
    numBlocks: memory.numBlocks,
    maxStagingBytes: memory.maxStagingBytes,
    gather: (group, blockIds) => memory.gather(group, blockIds),
    async stage(byteLength) {
      const staged = await memory.stage(byteLength);
      if (!armed) return staged;
      return {
        bytes: staged.bytes,
        discard: () => staged.discard(),
        commit(group, blockIds) {
          const hit = armed && canDamage(kind, blockIds);
          if (!hit) return staged.commit(group, blockIds);
          armed = false;
          return damage(staged, kind, group, blockIds, memory.blockBytes[group]!, tokenBytes);
        },
      };
    },
  };
}

const canDamage = (kind: FaultKind, blockIds: readonly BlockId[]): boolean =>
  kind === 'swap-blocks' ? blockIds.length >= 2 : blockIds.length >= 1;

function damage(
  staged: StagedBlocks,
  kind: FaultKind,
  group: number,
  blockIds: readonly BlockId[],
  blockBytes: number,
  tokenBytes: number,
): Promise<void> {
  const [first, second, ...rest] = blockIds as [BlockId, BlockId, ...BlockId[]];
  const { bytes } = staged;
  switch (kind) {
    case 'swap-blocks':
      return staged.commit(group, [second, first, ...rest]);
    case 'drop-block':
      bytes.copyWithin(0, blockBytes, blockIds.length * blockBytes);
      return staged.commit(group, blockIds.slice(1));
    case 'shift-token':
      bytes.copyWithin(tokenBytes, 0, blockBytes - tokenBytes);
      break;
    case 'flip-bit':
      // A high exponent bit of the first key: the damage that a single bit can do.
      bytes[1] = bytes[1]! ^ 0x40;
      break;
  }
  return staged.commit(group, blockIds);
}
