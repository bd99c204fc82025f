/**
 * The paged KV of one engine, in one buffer: [block][layer][K, V][kv head][slot][head dim] when a block is contiguous
 * across layers, [layer][block]... when it lies in one piece a layer. Gathers blocks into mapped memory and scatters them
 * back, there always one after the other, layer by layer within; kernels write and read them otherwise. KV cache groups
 * share the blocks: which group's layers one holds, and whether it is free, is not known here.
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
  /** Blocks in the pool, the null block included. */
  numBlocks: number;
  /** Of a block, whichever KV cache group takes it. */
  blockBytes: number;
  kvDtype: 'f16' | 'f32';
  clock: Clock;
  /** Pieces that a block lies in, one a layer, each copied by itself. 1, the default: contiguous. */
  pieces?: number;
  /** By KV cache group: bytes at a block's beginning that it uses. Default: one group that uses all. */
  groupBytes?: readonly number[];
  /** Bytes of one gather or stage at most; raised to one block. Default: a chunk of a transfer. */
  stagingBytes?: number;
}

/** Buffers in flight each way: one being copied by the device, one mapped, and the same again for the other peer. */
const RING_PLACES = 4;

export class GpuKvMemory implements BlockMemory {
  /** By group: what of a block is copied. */
  readonly blockBytes: readonly number[];
  /** Of a block, whichever group has it. */
  readonly pageBytes: number;
  readonly numBlocks: readonly number[];
  readonly maxStagingBytes: number;
  readonly kvDtype: 'f16' | 'f32';
  /** For kernels: bound as a whole. */
  readonly buffer: GPUBuffer;
  readonly #gpu: GpuDevice;
  readonly #clock: Clock;
  readonly #pieces: number;
  readonly #readback: StagingRing;
  readonly #upload: StagingRing;
  readonly #cleared: Uint8Array;
  #poisonSource: GPUBuffer | null = null;

  /** What is in a block at first nobody knows: see clear(). Throws ConfigError when the pool does not fit the adapter. */
  constructor(options: GpuKvMemoryOptions) {
    const { gpu, numBlocks, blockBytes, kvDtype } = options;
    this.#pieces = options.pieces ?? 1;
    invariant(
      blockBytes % (16 * this.#pieces) === 0,
      () => `a block of ${blockBytes} bytes in ${this.#pieces} piece(s) is no multiple of 16 bytes`,
    );
    const size = numBlocks * blockBytes;
    const limit = mostBound(gpu.device);
    if (size > limit) {
      throw new ConfigError(
        `${numBlocks} KV blocks of ${blockBytes} bytes are ${size} bytes, and ${gpu.report.name} binds ${limit} at most ` +
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

  /** Bytes of the staging buffers made so far. */
  get stagingBytes(): number {
    return this.#readback.bytes + this.#upload.bytes;
  }

  /**
   * Where kernels find layer `index` of numLayers in a block: its piece is number `block * layers + layer` of the buffer's,
   * each of pageBytes / numLayers bytes.
   */
  placeOfLayer(index: number, numLayers: number): { layer: number; layers: number } {
    if (this.#pieces === 1) return { layer: index, layers: numLayers };
    return { layer: index * this.numBlocks[0]!, layers: 1 };
  }

  async gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks> {
    this.#checkedLength(group, blockIds);
    return this.#gather(blockIds, this.blockBytes[group]!, revoked);
  }

  /** `used`: bytes of each block. */
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
      // Fresh, or given back unmapped.
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
          // Mapped again when the copy is done: one wait tells the caller, and readies the buffer for the next.
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
   * Writes zeros over those of the blocks that it never did before, in queue order: before a block is used for the first
   * time. The pool's memory may have been anyone's, and most of it is never used.
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

  /** Fills blocks with NaN, in queue order. For tests and for verify: what is read before it is written shows. */
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

  /** A copy of one block: of its whole page, whichever group has it. */
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
   * Each a copy of its own, offsets and sizes in bytes: a run of neighbouring blocks, a block that is not full of layers, or a
   * layer's piece of a block. `used`: bytes of each block that are copied.
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
    // 0x7e007e00: two half NaNs; as a float it is a number, so f32 gets its own.
    new Uint32Array(source.getMappedRange()).fill(this.kvDtype === 'f16' ? 0x7e007e00 : 0x7fc00000);
    source.unmap();
    return source;
  }

  /** Bytes of the blocks; `unbounded` ids are checked only. */
  #checkedLength(group: number, blockIds: readonly BlockId[], unbounded: readonly BlockId[] = []): number {
    invariant(group in this.blockBytes, () => `there is no KV cache group ${group}`);
    const byteLength = blockIds.length * this.blockBytes[group]!;
    invariant(
      byteLength <= this.maxStagingBytes,
      () => `${byteLength} bytes at once, at most ${this.maxStagingBytes}`,
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
