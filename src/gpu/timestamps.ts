/**
 * Reads the device's clock at the start and end of compute passes. Times are in the device's nanoseconds and are never
 * added to host times. Requires the feature timestamp-query. Browsers and some drivers report coarse steps, so the step
 * is measured too.
 */
import type { GpuDevice } from './device.ts';

/** Device clock, nanoseconds. */
export interface PassTimes {
  startNs: number;
  endNs: number;
}

const BYTES = 8;

export class PassTimer {
  readonly #gpu: GpuDevice;
  readonly #querySet: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #readback: GPUBuffer;
  #smallestStep = Number.POSITIVE_INFINITY;
  #last = 0n;

  private constructor(gpu: GpuDevice, capacity: number) {
    this.#gpu = gpu;
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

  /** For at most `capacity` passes between two reads. null if the device has no timestamp-query. */
  static create(gpu: GpuDevice, capacity: number): PassTimer | null {
    return gpu.device.features.has('timestamp-query') ? new PassTimer(gpu, capacity) : null;
  }

  /** For the descriptor of a pass. Indices begin at 0 after each read. */
  passAt(index: number): GPUComputePassTimestampWrites {
    return {
      querySet: this.#querySet,
      beginningOfPassWriteIndex: 2 * index,
      endOfPassWriteIndex: 2 * index + 1,
    };
  }

  /** Encode after the first `passes` passes, which may be in earlier command buffers. */
  resolve(encoder: GPUCommandEncoder, passes: number): void {
    encoder.resolveQuerySet(this.#querySet, 0, 2 * passes, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#readback, 0, 2 * passes * BYTES);
  }

  /** Times of the first `count` passes, in order. Call after the commands that resolve them have been submitted. */
  async read(count: number): Promise<PassTimes[]> {
    await this.#gpu.guard(this.#readback.mapAsync(GPUMapMode.READ, 0, 2 * count * BYTES));
    const times = new BigUint64Array(this.#readback.getMappedRange(0, 2 * count * BYTES)).slice();
    this.#readback.unmap();
    for (const time of times) this.#noteStep(time);
    return Array.from({ length: count }, (_, i) => ({
      startNs: Number(times[2 * i]!),
      endNs: Number(times[2 * i + 1]!),
    }));
  }

  /**
   * The smallest difference between two consecutive distinct times so far, in nanoseconds. Shorter durations cannot be
   * measured. null: none seen yet.
   */
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
 * Maps device times to the host's clock. Each submit gives two bounds: its work started no earlier than the submit, and
 * ended no later than the host saw it done. The estimated offset is the middle of the interval that satisfies all
 * bounds; its uncertainty is half the interval.
 */
export class ClockAlignment {
  /** Bounds of host milliseconds minus device milliseconds. */
  #low = Number.NEGATIVE_INFINITY;
  #high = Number.POSITIVE_INFINITY;

  note({ startNs }: PassTimes, { endNs }: PassTimes, host: { submittedMs: number; doneMs: number }): void {
    const low = host.submittedMs - startNs / 1e6;
    const high = host.doneMs - endNs / 1e6;
    this.#low = Math.max(this.#low, low);
    this.#high = Math.min(this.#high, high);
    // The clocks have drifted apart: start again from the newest bounds.
    if (this.#low > this.#high) [this.#low, this.#high] = [low, high];
  }

  toHostMs(ns: number): number {
    return ns / 1e6 + (this.#low + this.#high) / 2;
  }

  /** Largest error of toHostMs in either direction, milliseconds. */
  get uncertaintyMs(): number {
    return (this.#high - this.#low) / 2;
  }
}
