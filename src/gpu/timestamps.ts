/**
 * The device's own clock, at both ends of compute passes. Times are the device's nanoseconds: they are never added to a
 * host's. Needs the feature timestamp-query; browsers, and some drivers, give coarse steps, so the step is found out too.
 */
import type { GpuDevice } from './device.ts';

/** Device clock, nanoseconds. */
export interface PassTimes {
  startNs: number;
  endNs: number;
}

const BYTES = 8;

export class PassTimer {
  /** Passes between two reads at most. */
  readonly capacity: number;
  readonly #gpu: GpuDevice;
  readonly #querySet: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #readback: GPUBuffer;
  #passes = 0;
  #smallestStep = Number.POSITIVE_INFINITY;
  #last = 0n;

  private constructor(gpu: GpuDevice, capacity: number) {
    this.#gpu = gpu;
    this.capacity = capacity;
    const { device } = gpu;
    this.#querySet = device.createQuerySet({ label: 'pass times', type: 'timestamp', count: 2 * capacity });
    const size = 2 * capacity * BYTES;
    this.#resolved = device.createBuffer({
      label: 'pass times',
      size,
      usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
    });
    this.#readback = device.createBuffer({
      label: 'pass times readback',
      size,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
  }

  /** null where the device has no timestamp-query. */
  static create(gpu: GpuDevice, capacity: number): PassTimer | null {
    return gpu.device.features.has('timestamp-query') ? new PassTimer(gpu, capacity) : null;
  }

  /** For the descriptor of the next pass. */
  nextPass(): GPUComputePassTimestampWrites {
    const first = 2 * this.#passes++;
    return {
      querySet: this.#querySet,
      beginningOfPassWriteIndex: first,
      endOfPassWriteIndex: first + 1,
    };
  }

  /** Into the command buffer that holds the passes, after them. */
  resolve(encoder: GPUCommandEncoder): void {
    const bytes = 2 * this.#passes * BYTES;
    encoder.resolveQuerySet(this.#querySet, 0, 2 * this.#passes, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#readback, 0, bytes);
  }

  /** Of the passes since the last read, in order; call when their command buffer has been submitted. */
  async read(): Promise<PassTimes[]> {
    const count = this.#passes;
    this.#passes = 0;
    await this.#gpu.guard(this.#readback.mapAsync(GPUMapMode.READ, 0, 2 * count * BYTES));
    const times = new BigUint64Array(this.#readback.getMappedRange(0, 2 * count * BYTES)).slice();
    this.#readback.unmap();
    for (const time of times) this.#noteStep(time);
    return Array.from({ length: count }, (_, i) => ({
      startNs: Number(times[2 * i]!),
      endNs: Number(times[2 * i + 1]!),
    }));
  }

  /** The smallest step between two different times so far, nanoseconds: what is shorter cannot be told. null: none seen. */
  get smallestStepNs(): number | null {
    return Number.isFinite(this.#smallestStep) ? this.#smallestStep : null;
  }

  destroy(): void {
    this.#querySet.destroy();
    this.#resolved.destroy();
    this.#readback.destroy();
  }

  #noteStep(time: bigint): void {
    const step = Number(time > this.#last ? time - this.#last : this.#last - time);
    if (step > 0) this.#smallestStep = Math.min(this.#smallestStep, step);
    this.#last = time;
  }
}

/**
 * Moves the device's times onto the host's clock. Each submit says: it began no sooner than it was handed over, and ended no
 * later than it was known to be done. What all of them allow is the offset, known to half of what is left between.
 */
export class ClockAlignment {
  /** Host milliseconds less device milliseconds lies between. */
  #low = Number.NEGATIVE_INFINITY;
  #high = Number.POSITIVE_INFINITY;

  note({ startNs }: PassTimes, { endNs }: PassTimes, host: { submittedMs: number; doneMs: number }): void {
    const low = host.submittedMs - startNs / 1e6;
    const high = host.doneMs - endNs / 1e6;
    this.#low = Math.max(this.#low, low);
    this.#high = Math.min(this.#high, high);
    // The clocks drift apart in time: then the newest counts.
    if (this.#low > this.#high) [this.#low, this.#high] = [low, high];
  }

  toHostMs(ns: number): number {
    return ns / 1e6 + (this.#low + this.#high) / 2;
  }

  /** Milliseconds by which it may be wrong, either way. */
  get uncertaintyMs(): number {
    return (this.#high - this.#low) / 2;
  }
}
