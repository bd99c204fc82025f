/**
 * Deliberate damage, for proving that wrong KV is noticed: to what a reader writes into its blocks, or to a chunk in the
 * slab. Only the first chunk that can be damaged is. Never part of normal work.
 */
import type { BlockId } from '../engine/types.ts';
import type { BlockMemory, StagedBlocks } from './types.ts';

/** At the reader, when it commits: a block not written, two exchanged, one moved by a token. In the slab: one bit flipped. */
export type ReaderFault = 'drop-block' | 'swap-blocks' | 'shift-token' | GroupFault;
/** That only KV cache groups can have: a block with another group's content, and one read where its window has passed. */
export type GroupFault = 'wrong-group' | 'null-block';
export type FaultKind = ReaderFault | 'flip-bit';

/** `tokenBytes`: bytes of one slot of one head, the distance by which 'shift-token' moves a block's content. */
export function withFault(memory: BlockMemory, kind: ReaderFault, tokenBytes: number): BlockMemory {
  let armed = true;
  /** Of the first block of another group that came. */
  let other: { group: number; bytes: Uint8Array } | null = null;
  return {
    blockBytes: memory.blockBytes,
    numBlocks: memory.numBlocks,
    maxStagingBytes: memory.maxStagingBytes,
    gather: (group, blockIds, revoked) => memory.gather(group, blockIds, revoked),
    async stage(byteLength) {
      const staged = await memory.stage(byteLength);
      if (!armed) return staged;
      return {
        bytes: staged.bytes,
        discard: () => staged.discard(),
        commit(group, blockIds) {
          if (kind === 'wrong-group' && armed) {
            other ??= { group, bytes: staged.bytes.slice(0, memory.blockBytes[group]!) };
            if (other.group === group) return staged.commit(group, blockIds);
            staged.bytes.set(other.bytes);
          }
          const hit = armed && canDamage(kind, blockIds);
          if (!hit) return staged.commit(group, blockIds);
          armed = false;
          return damage(memory, staged, kind, group, blockIds, tokenBytes);
        },
      };
    },
  };
}

const canDamage = (kind: ReaderFault, blockIds: readonly BlockId[]): boolean =>
  kind === 'swap-blocks' ? blockIds.length >= 2 : blockIds.length >= 1;

function damage(
  memory: BlockMemory,
  staged: StagedBlocks,
  kind: ReaderFault,
  group: number,
  blockIds: readonly BlockId[],
  tokenBytes: number,
): ReturnType<StagedBlocks['commit']> {
  const [first, second, ...rest] = blockIds as [BlockId, BlockId, ...BlockId[]];
  const { bytes } = staged;
  switch (kind) {
    case 'swap-blocks':
      return staged.commit(group, [second, first, ...rest]);
    case 'drop-block':
      return commitWithoutFirst(memory, staged, group, blockIds);
    case 'wrong-group':
      break;
    case 'null-block':
      // What the null block has: nothing was ever computed into it.
      bytes.fill(0, 0, memory.blockBytes[group]!);
      break;
    case 'shift-token':
      bytes.copyWithin(tokenBytes, 0, memory.blockBytes[group]! - tokenBytes);
      break;
  }
  return staged.commit(group, blockIds);
}

async function commitWithoutFirst(
  memory: BlockMemory,
  staged: StagedBlocks,
  group: number,
  blockIds: readonly BlockId[],
): ReturnType<StagedBlocks['commit']> {
  const rest = staged.bytes.slice(memory.blockBytes[group]!);
  staged.discard();
  if (rest.byteLength === 0) return { scatterMs: 0 };
  const again = await memory.stage(rest.byteLength);
  again.bytes.set(rest);
  return again.commit(group, blockIds.slice(1));
}

/** For the holder's transport: flips one bit of the first chunk, between the checksums of both ends. */
export function flipOneBit(): (bytes: Uint8Array) => void {
  let armed = true;
  return (bytes) => {
    // The high exponent bit of the first key's first value, f16 or the low half of an f32; the next one where that would
    // leave no number, which an engine dies of.
    if (armed) bytes[1] = bytes[1]! ^ ((bytes[1]! & 0x3c) === 0x3c ? 0x20 : 0x40);
    armed = false;
  };
}
