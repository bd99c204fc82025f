/**
 * A ring of staging buffers of one kind, all made at once: what an engine takes of its device is known before it serves,
 * and stays so. A buffer has one user at a time; who finds all in use waits in line. It maps nothing: a user unmaps the
 * buffer before giving it back, or gives it back mapped where the next user expects that (uploads).
 */
import { EngineDeadError } from '../errors.ts';
import { roundUp } from './buffer-size.ts';
import type { GpuDevice } from './device.ts';

export interface StagingRingOptions {
  label: string;
  usage: GPUBufferUsageFlags;
  /** Buffers. */
  places: number;
  /** Bytes of a buffer; a larger request gets a larger one in the place of the oldest free one. */
  bufferBytes: number;
}

export class StagingRing {
  readonly #gpu: GpuDevice;
  readonly #options: StagingRingOptions;
  /** Taken from its end: what was given back last the processor's caches still have, where the device is one. */
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

  /** A buffer of at least byteLength bytes; waits for one when all are in use. Rejects when the device ends. */
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
    // A driver takes memory when it is first written to: now, not in the first transfers' time.
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
