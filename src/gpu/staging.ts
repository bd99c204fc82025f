/**
 * A fixed-size ring of staging buffers of one kind. All are created at the start, so an engine's device memory is known
 * before it serves and does not grow. A buffer has one user at a time; when all are in use, callers wait in order. The
 * ring maps nothing: a user unmaps a buffer before it releases it, or releases it mapped if the next user expects that
 * (uploads).
 */
import { EngineDeadError } from '../errors.ts';
import { roundUp } from './buffer-size.ts';
import type { GpuDevice } from './device.ts';

export interface StagingRingOptions {
  label: string;
  usage: GPUBufferUsageFlags;
  /** Number of buffers. */
  places: number;
  /** Bytes of one buffer. A larger request replaces the oldest free buffer with a larger one. */
  bufferBytes: number;
}

export class StagingRing {
  readonly #gpu: GpuDevice;
  readonly #options: StagingRingOptions;
  /**
   * Taken from the end: on a software adapter, the most recently released buffer may still be in the processor's
   * caches.
   */
  readonly #free: GPUBuffer[] = [];
  readonly #all = new Set<GPUBuffer>();
  #inUse = 0;
  readonly #line: { resolve: () => void; reject: (error: Error) => void }[] = [];

  constructor(gpu: GpuDevice, options: StagingRingOptions) {
    this.#gpu = gpu;
    this.#options = options;
    gpu.lost.then((reason) => {
      for (const { reject } of this.#line.splice(0)) reject(new EngineDeadError(reason));
    });
    for (let i = 0; i < options.places; i++) this.#free.push(this.#create(options.bufferBytes));
  }

  /** Bytes of all buffers. */
  get bytes(): number {
    let total = 0;
    for (const buffer of this.#all) total += buffer.size;
    return total;
  }

  /**
   * Returns a buffer of at least byteLength bytes; waits if all are in use. Rejects with EngineDeadError when the
   * device ends.
   */
  async acquire(byteLength: number): Promise<GPUBuffer> {
    this.#gpu.assertAlive();
    if (this.#inUse >= this.#options.places) {
      await new Promise<void>((resolve, reject) => this.#line.push({ resolve, reject }));
    } else {
      this.#inUse += 1;
    }
    try {
      this.#gpu.assertAlive();
      return this.#take(byteLength);
    } catch (error) {
      this.#leave();
      throw error;
    }
  }

  release(buffer: GPUBuffer): void {
    this.#free.push(buffer);
    this.#leave();
  }

  destroy(): void {
    for (const buffer of this.#all) buffer.destroy();
    this.#all.clear();
    this.#free.length = 0;
  }

  #take(byteLength: number): GPUBuffer {
    const fits = this.#free.findLastIndex((buffer) => buffer.size >= byteLength);
    if (fits >= 0) return this.#free.splice(fits, 1)[0]!;
    const outgrown = this.#free.shift()!;
    this.#all.delete(outgrown);
    outgrown.destroy();
    return this.#create(roundUp(byteLength, 4));
  }

  #create(size: number): GPUBuffer {
    const { label, usage } = this.#options;
    const mappedAtCreation = (usage & GPUBufferUsage.MAP_WRITE) !== 0;
    const buffer = this.#gpu.device.createBuffer({ label, size, usage, mappedAtCreation });
    // Drivers allocate memory at the first write. Write now, so that the first transfers do not pay for it.
    if (mappedAtCreation) {
      new Uint8Array(buffer.getMappedRange()).fill(0);
      buffer.unmap();
    } else this.#gpu.zero(buffer);
    this.#all.add(buffer);
    return buffer;
  }

  #leave(): void {
    const next = this.#line.shift();
    if (next) next.resolve();
    else this.#inUse -= 1;
  }
}
