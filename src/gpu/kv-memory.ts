/**
 * The paged KV of one engine, in one buffer. Its layout is [block][layer][K, V][kv head][slot][head dim] if a block is
 * contiguous across layers, or [layer][block][K, V]... if a block consists of one piece per layer.
 * Gathers blocks into mapped memory and scatters them back. In the mapped memory, blocks are always consecutive, with
 * layers in order inside a block, independent of the layout on the device.
 * KV cache groups share the blocks. This module does not know which group has a block, or whether a block is free.
 */
import { type BlockId, type Clock, NULL_BLOCK } from '../engine/types.ts';
import { ConfigError, invariant } from '../errors.ts';
import { DEFAULT_CHUNK_BYTES } from '../transport/chunks.ts';
import { mergeRuns } from '../transport/merge-runs.ts';
import type { BlockMemory, GatheredBlocks, StagedBlocks } from '../transport/types.ts';
import { mostBound } from './buffer-size.ts';
import type { GpuDevice } from './device.ts';
import { StagingRing } from './staging.ts';

export interface GpuKvMemoryOptions {
  gpu: GpuDevice;
  /** Blocks in the pool, including the null block. */
  numBlocks: number;
  /** Bytes of one block, for any KV cache group. */
  blockBytes: number;
  kvDtype: 'f16' | 'f32';
  clock: Clock;
  /** Pieces of a block, one per layer, each copied separately. Default 1: contiguous. */
  pieces?: number;
  /** By KV cache group: bytes used from the start of a block. Default: one group that uses the whole block. */
  groupBytes?: readonly number[];
  /** Most bytes of one gather or stage, raised to at least one block. For tests; default: one chunk of a transfer. */
  stagingBytes?: number;
}

/** Staging buffers in each direction: for each of two peers, one that the device copies and one that is mapped. */
const RING_PLACES = 4;

export class GpuKvMemory implements BlockMemory {
  /** By group: bytes of a block that are copied. */
  readonly blockBytes: readonly number[];
  /** Bytes of a block, for any group. */
  readonly pageBytes: number;
  readonly numBlocks: readonly number[];
  readonly maxStagingBytes: number;
  readonly kvDtype: 'f16' | 'f32';
  /** For kernels, which bind it whole. */
  readonly buffer: GPUBuffer;
  readonly #gpu: GpuDevice;
  readonly #clock: Clock;
  readonly #pieces: number;
  readonly #readback: StagingRing;
  readonly #upload: StagingRing;
  readonly #cleared: Uint8Array;
  #poisonSource: GPUBuffer | null = null;

  /** A block's initial content is undefined: see clear(). Throws ConfigError if the pool does not fit the adapter. */
  constructor(options: GpuKvMemoryOptions) {
    const { gpu, numBlocks, blockBytes, kvDtype } = options;
    this.#pieces = options.pieces ?? 1;
    invariant(
      blockBytes % (16 * this.#pieces) === 0,
      () => `a block of ${blockBytes} bytes in ${this.#pieces} piece(s) is not a multiple of 16 bytes`,
    );
    const size = numBlocks * blockBytes;
    const limit = mostBound(gpu.device);
    if (size > limit) {
      throw new ConfigError(
        `${numBlocks} KV blocks of ${blockBytes} bytes need ${size} bytes, but ${gpu.report.name} binds at most ${limit} ` +
          `(maxStorageBufferBindingSize): use ${Math.floor(limit / blockBytes)} blocks or fewer, smaller blocks, or --kv-dtype f16`,
      );
    }
    this.#gpu = gpu;
    this.#clock = options.clock;
    this.kvDtype = kvDtype;
    this.pageBytes = blockBytes;
    this.blockBytes = options.groupBytes ?? [blockBytes];
    const pieceBytes = this.#pieces === 1 ? 4 : blockBytes / this.#pieces;
    invariant(
      this.blockBytes.every((bytes) => bytes > 0 && bytes <= blockBytes && bytes % pieceBytes === 0),
      () => `groups use ${this.blockBytes.join(', ')} bytes of blocks of ${blockBytes}`,
    );
    this.numBlocks = this.blockBytes.map(() => numBlocks);
    this.maxStagingBytes = Math.max(options.stagingBytes ?? DEFAULT_CHUNK_BYTES, blockBytes);
    this.buffer = gpu.device.createBuffer({
      label: 'kv cache',
      size,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
    this.#cleared = new Uint8Array(numBlocks);
    this.clear([NULL_BLOCK]);
    const ring = { places: RING_PLACES, bufferBytes: Math.min(this.maxStagingBytes, size) };
    this.#readback = new StagingRing(gpu, {
      ...ring,
      label: 'kv readback',
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    this.#upload = new StagingRing(gpu, {
      ...ring,
      label: 'kv upload',
      usage: GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC,
    });
  }

  /** Bytes of the staging buffers created so far. */
  get stagingBytes(): number {
    return this.#readback.bytes + this.#upload.bytes;
  }

  /**
   * Where kernels find layer `index` of `numLayers` in a block: piece `block * layers + layer` of the buffer. Each
   * piece has pageBytes / numLayers bytes.
   */
  placeOfLayer(index: number, numLayers: number): { layer: number; layers: number } {
    if (this.#pieces === 1) return { layer: index, layers: numLayers };
    return { layer: index * this.numBlocks[0]!, layers: 1 };
  }

  async gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks> {
    this.#checkedLength(group, blockIds);
    return this.#gather(blockIds, this.blockBytes[group]!, revoked);
  }

  /** `used`: bytes copied of each block. */
  async #gather(blockIds: readonly BlockId[], used: number, revoked?: AbortSignal): Promise<GatheredBlocks> {
    const byteLength = blockIds.length * used;
    const buffer = await this.#readback.acquire(byteLength);
    try {
      revoked?.throwIfAborted();
      const acquired = this.#clock.now();
      const encoder = this.#gpu.device.createCommandEncoder({ label: 'kv gather' });
      const copies = this.#copies(blockIds, used);
      for (const { device, staged, bytes } of copies)
        encoder.copyBufferToBuffer(this.buffer, device, buffer, staged, bytes);
      this.#gpu.device.queue.submit([encoder.finish()]);
      const submitted = this.#clock.now();
      const mapping = this.#gpu.guard(buffer.mapAsync(GPUMapMode.READ, 0, byteLength));
      mapping.catch(() => {});
      await this.#gpu.idle();
      const started = this.#clock.now();
      await mapping;
      const mapped = this.#clock.now();
      return {
        bytes: new Uint8Array(buffer.getMappedRange(0, byteLength)),
        release: once(() => {
          buffer.unmap();
          this.#readback.release(buffer);
        }),
        gatherMs: submitted - acquired,
        waitMs: started - submitted,
        readbackMs: mapped - started,
        descriptors: copies.length,
      };
    } catch (error) {
      this.#readback.release(buffer);
      throw error;
    }
  }

  async stage(byteLength: number): Promise<StagedBlocks> {
    invariant(
      byteLength <= this.maxStagingBytes && byteLength % 4 === 0,
      () => `cannot stage ${byteLength} bytes`,
    );
    const buffer = await this.#upload.acquire(byteLength);
    try {
      // A new buffer, or one that was returned unmapped.
      if (buffer.mapState !== 'mapped') await this.#gpu.guard(buffer.mapAsync(GPUMapMode.WRITE));
    } catch (error) {
      this.#upload.release(buffer);
      throw error;
    }
    const finish = once(() => this.#upload.release(buffer));
    return {
      bytes: new Uint8Array(buffer.getMappedRange(0, byteLength)),
      commit: async (group, blockIds) => {
        try {
          invariant(
            this.#checkedLength(group, blockIds) === byteLength,
            () => 'commit: blocks do not fill the stage',
          );
          buffer.unmap();
          this.#gpu.device.queue.submit([this.#encodeScatter(buffer, blockIds, this.blockBytes[group]!)]);
          const submitted = this.#clock.now();
          // Mapping again resolves when the copy is done. This one wait also prepares the buffer for its next user.
          await this.#gpu.guard(buffer.mapAsync(GPUMapMode.WRITE));
          return { scatterMs: this.#clock.now() - submitted };
        } finally {
          finish();
        }
      },
      discard: () => {
        if (this.#gpu.deadReason === null && buffer.mapState === 'mapped') buffer.unmap();
        finish();
      },
    };
  }

  /**
   * Zeroes the given blocks that have never been zeroed, in queue order. Call before a block is first used: the pool's
   * memory may hold another program's data. Clearing on first use leaves the blocks that are never used untouched.
   */
  clear(blockIds: readonly BlockId[]): void {
    const fresh = blockIds.filter((id) => this.#cleared[id] === 0);
    if (fresh.length === 0 || this.#gpu.deadReason !== null) return;
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'kv zeros' });
    for (const { device, bytes } of this.#copies(fresh, this.pageBytes))
      encoder.clearBuffer(this.buffer, device, bytes);
    this.#gpu.device.queue.submit([encoder.finish()]);
    for (const id of fresh) this.#cleared[id] = 1;
  }

  /** Fills blocks with NaN, in queue order. Tests and `verify` use it to expose reads of unwritten data. */
  poison(group: number, blockIds: readonly BlockId[]): void {
    this.#checkedLength(group, [], blockIds);
    if (this.#gpu.deadReason !== null) return;
    this.#poisonSource ??= this.#nanBlock(this.pageBytes);
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'kv poison' });
    for (const id of blockIds) {
      for (const { device, staged, bytes } of this.#copies([id], this.pageBytes))
        encoder.copyBufferToBuffer(this.#poisonSource, staged, this.buffer, device, bytes);
    }
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  /** A copy of one whole block (pageBytes), for any group. */
  async readBlock(id: BlockId): Promise<Uint8Array> {
    this.#checkedLength(0, [id]);
    const { bytes, release } = await this.#gather([id], this.pageBytes);
    const copy = bytes.slice();
    release();
    return copy;
  }

  destroy(): void {
    this.#readback.destroy();
    this.#upload.destroy();
    this.#poisonSource?.destroy();
    this.buffer.destroy();
  }

  #encodeScatter(source: GPUBuffer, blockIds: readonly BlockId[], used: number): GPUCommandBuffer {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'kv scatter' });
    for (const { device, staged, bytes } of this.#copies(blockIds, used))
      encoder.copyBufferToBuffer(source, staged, this.buffer, device, bytes);
    return encoder.finish();
  }

  /**
   * The copies for these blocks, offsets and sizes in bytes. One copy is a run of neighbouring blocks, a partly used
   * block, or one layer's piece of a block. `used`: bytes copied of each block.
   */
  #copies(blockIds: readonly BlockId[], used: number): { device: number; staged: number; bytes: number }[] {
    if (this.#pieces === 1) {
      const runs = used === this.pageBytes ? mergeRuns(blockIds) : blockIds.map((id) => [id, 1] as const);
      let staged = 0;
      return runs.map(([first, count]) => {
        const copy = { device: first * this.pageBytes, staged, bytes: count * used };
        staged += copy.bytes;
        return copy;
      });
    }
    const bytes = this.pageBytes / this.#pieces;
    return blockIds.flatMap((id, i) =>
      Array.from({ length: used / bytes }, (_, piece) => ({
        device: (piece * this.numBlocks[0]! + id) * bytes,
        staged: i * used + piece * bytes,
        bytes,
      })),
    );
  }

  #nanBlock(blockBytes: number): GPUBuffer {
    const usage = GPUBufferUsage.COPY_SRC;
    const source = this.#gpu.device.createBuffer({
      label: 'kv poison',
      size: blockBytes,
      usage,
      mappedAtCreation: true,
    });
    // 0x7e007e00 is two f16 NaNs. As an f32 it is a number, so f32 has its own pattern.
    new Uint32Array(source.getMappedRange()).fill(this.kvDtype === 'f16' ? 0x7e007e00 : 0x7fc00000);
    source.unmap();
    return source;
  }

  /**
   * Total bytes of `blockIds`. Throws InternalError if they exceed maxStagingBytes or an id is invalid. `unbounded` ids
   * are checked but not counted.
   */
  #checkedLength(group: number, blockIds: readonly BlockId[], unbounded: readonly BlockId[] = []): number {
    invariant(group in this.blockBytes, () => `there is no KV cache group ${group}`);
    const byteLength = blockIds.length * this.blockBytes[group]!;
    invariant(
      byteLength <= this.maxStagingBytes,
      () => `a transfer of ${byteLength} bytes exceeds the limit of ${this.maxStagingBytes}`,
    );
    for (const id of [...blockIds, ...unbounded]) {
      invariant(id > NULL_BLOCK && id < this.numBlocks[0]!, () => `there is no block ${id} to copy`);
    }
    return byteLength;
  }
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
