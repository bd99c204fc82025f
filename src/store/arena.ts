/** A store's blocks as bytes: one piece of memory a group, block 0 unused as in an engine's pool. Knows no keys. */
import type { BlockId } from '../engine/types.ts';
import { ConfigError } from '../errors.ts';
import type { BlockMemory, GatheredBlocks, StagedBlocks } from '../transport/types.ts';

const MOST_STAGED = 4 * 2 ** 20;

export class ArenaMemory implements BlockMemory {
  readonly blockBytes: readonly number[];
  readonly numBlocks: readonly number[];
  readonly maxStagingBytes: number;
  readonly #pools: readonly Uint8Array[];

  /** `slots`: blocks in every group. Throws ConfigError when there is no such memory. */
  constructor(slots: number, blockBytes: readonly number[]) {
    this.blockBytes = blockBytes;
    this.numBlocks = blockBytes.map(() => slots + 1);
    this.maxStagingBytes = Math.max(MOST_STAGED, ...blockBytes);
    try {
      this.#pools = blockBytes.map((bytes) => new Uint8Array((slots + 1) * bytes));
    } catch {
      throw new ConfigError(
        `the store cannot have ${slots} blocks of ${blockBytes.join(' + ')} bytes of memory here: give it less`,
      );
    }
  }

  /** The block's own bytes, not a copy. */
  block(group: number, id: BlockId): Uint8Array {
    const bytes = this.blockBytes[group]!;
    return this.#pools[group]!.subarray(id * bytes, (id + 1) * bytes);
  }

  /** Of every group, the block's own bytes. `slot`: of a catalog. */
  parts(slot: number): Uint8Array[] {
    return this.blockBytes.map((_, group) => this.block(group, slot + 1));
  }

  /** Neighbours are not copied: whoever gathers has what it reads kept until it has read. */
  async gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks> {
    revoked?.throwIfAborted();
    const bytes = this.blockBytes[group]!;
    const first = blockIds[0]!;
    const neighbours = blockIds.every((id, i) => id === first + i);
    const gathered = neighbours
      ? this.#pools[group]!.subarray(first * bytes, (first + blockIds.length) * bytes)
      : new Uint8Array(blockIds.length * bytes);
    if (!neighbours) for (const [i, id] of blockIds.entries()) gathered.set(this.block(group, id), i * bytes);
    const descriptors = neighbours ? 1 : blockIds.length;
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
