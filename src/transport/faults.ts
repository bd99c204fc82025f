/**
 * Deliberate damage, to prove that wrong KV is detected: to what a reader writes into its blocks, or to a chunk in the slab.
 * Damages only the first chunk possible. Never used in normal operation.
 */
import type { BlockId } from '../engine/types.ts';
import type { BlockMemory, StagedBlocks } from './types.ts';

/** Damage when the reader commits: a block not written, two blocks swapped, or one shifted by a token. */
export type ReaderFault = 'drop-block' | 'swap-blocks' | 'shift-token' | GroupFault;
/** Faults specific to KV cache groups: a block with another group's content, or with the null block's. */
export type GroupFault = 'wrong-group' | 'null-block';
/** 'flip-bit': one bit flipped in the slab. */
export type FaultKind = ReaderFault | 'flip-bit';

/** `tokenBytes`: bytes of one token slot of one head, the distance by which 'shift-token' moves a block's content. */
export function withFault(memory: BlockMemory, kind: ReaderFault, tokenBytes: number): BlockMemory {
  let armed = true;
  /** The first block that arrived. It replaces the first block of a different group. */
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
      // The null block contains zeros: nothing is ever computed into it.
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
    // The highest exponent bit of the first key's first value (an f16, or the low half of an f32). If that would make it NaN or
    // infinite, which stops an engine, the next bit.
    if (armed) bytes[1] = bytes[1]! ^ ((bytes[1]! & 0x3c) === 0x3c ? 0x20 : 0x40);
    armed = false;
  };
}
