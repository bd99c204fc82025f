/**
 * A store's memory: one allocation, divided into slots with room for a block of any KV cache group. Block 0 is unused, as in an
 * engine's pool. Knows no keys.
 */
import type { BlockId } from '../engine/types.ts';
import { ConfigError } from '../errors.ts';
import type { BlockMemory, GatheredBlocks, StagedBlocks } from '../transport/types.ts';
import { slotBytes } from './slots.ts';

/** Bytes. */
const MOST_STAGED = 4 * 2 ** 20;

export class ArenaMemory implements BlockMemory {
  readonly blockBytes: readonly number[];
  readonly numBlocks: readonly number[];
  readonly maxStagingBytes: number;
  readonly #slotBytes: number;
  readonly #memory: Uint8Array;

  /** Throws ConfigError if the memory cannot be allocated. */
  constructor(slots: number, blockBytes: readonly number[]) {
    this.blockBytes = blockBytes;
    this.numBlocks = blockBytes.map(() => slots + 1);
    this.#slotBytes = slotBytes(blockBytes);
    this.maxStagingBytes = Math.max(MOST_STAGED, this.#slotBytes);
    try {
      this.#memory = new Uint8Array((slots + 1) * this.#slotBytes);
    } catch {
      throw new ConfigError(
        `the store cannot allocate ${slots} blocks of ${this.#slotBytes} bytes here: give it less memory`,
      );
    }
  }

  /** A view of the block's bytes, not a copy. */
  block(group: number, id: BlockId): Uint8Array {
    return this.#memory.subarray(id * this.#slotBytes, id * this.#slotBytes + this.blockBytes[group]!);
  }

  /** Views of the block's bytes. `slot`: as in the catalog (block id - 1). */
  parts(slot: number, group: number): Uint8Array[] {
    return [this.block(group, slot + 1)];
  }

  /** Returns a view if the blocks are adjacent, so callers must keep the blocks in memory until they have read them. */
  async gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks> {
    revoked?.throwIfAborted();
    const bytes = this.blockBytes[group]!;
    const first = blockIds[0]!;
    const oneRun = bytes === this.#slotBytes && blockIds.every((id, i) => id === first + i);
    const gathered = oneRun
      ? this.#memory.subarray(first * bytes, (first + blockIds.length) * bytes)
      : new Uint8Array(blockIds.length * bytes);
    if (!oneRun) for (const [i, id] of blockIds.entries()) gathered.set(this.block(group, id), i * bytes);
    const descriptors = oneRun ? 1 : blockIds.length;
    return { bytes: gathered, release() {}, gatherMs: 0, waitMs: 0, readbackMs: 0, descriptors };
  }

  async stage(byteLength: number): Promise<StagedBlocks> {
    const bytes = new Uint8Array(byteLength);
    const commit: StagedBlocks['commit'] = async (group, blockIds) => {
      const size = this.blockBytes[group]!;
      for (const [i, id] of blockIds.entries())
        this.block(group, id).set(bytes.subarray(i * size, (i + 1) * size));
      return { scatterMs: 0 };
    };
    return { bytes, commit, discard() {} };
  }
}
