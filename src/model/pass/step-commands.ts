/**
 * Encodes the dispatches of a step into command buffers: for decode steps one step ahead, and otherwise, for GPUs, in
 * portions, so that the GPU computes the first while the host encodes the rest. Submits nothing itself.
 */
import type { GpuDevice } from '../../gpu/device.ts';
import type { KernelLibrary } from '../../gpu/kernels.ts';
import type { KernelTiming } from './kernel-timing.ts';
import type { Work } from './stage.ts';

/**
 * Dispatches of the first portion, and how much larger each later one is. Each submit costs the host and a fast GPU some
 * microseconds; if portions grew faster, the GPU would wait for the next one.
 */
const FIRST_PORTION = 16;
const PORTION_GROWTH = 2.5;

export type EncodeCopy = (encoder: GPUCommandEncoder) => void;

export class StepCommands {
  readonly #device: GPUDevice;
  /** A software adapter computes on the host's processors, where more submits only cost time. */
  readonly #inPortions: boolean;
  readonly #library: KernelLibrary;
  #timing: KernelTiming | null = null;
  /**
   * The next decode step's commands, encoded while the device computes the current one. Used if the next step has the
   * same dispatches. They are one submit: with nothing left to encode, several took longer.
   */
  #ahead: { part: readonly Work[]; commands: GPUCommandBuffer } | null = null;
  #passes = 0;

  constructor({ device, report }: GpuDevice, library: KernelLibrary) {
    this.#device = device;
    this.#inPortions = !report.software;
    this.#library = library;
  }

  /** null unless device times are requested. */
  get timing(): KernelTiming | null {
    return this.#timing;
  }

  /** The old timing is destroyed, and so are commands that would use it. */
  set timing(timing: KernelTiming | null) {
    this.#timing?.destroy();
    this.#timing = timing;
    this.#ahead = null;
  }

  /**
   * The part's commands by submit, each encoded only when it is about to be submitted. `copy` is encoded after the last
   * dispatch.
   */
  *submits(part: readonly Work[], copy?: EncodeCopy): Generator<GPUCommandBuffer[]> {
    const ahead = this.#takeAhead(part);
    const byKernel = this.#timing?.mode === 'kernels';
    const portions = ahead || byKernel || !this.#inPortions ? [part] : portionsOf(part);
    this.#passes = byKernel ? part.length : portions.length;
    for (const [i, portion] of portions.entries()) {
      const commands = [ahead ?? this.#encode(portion, i, portions.length)];
      if (copy && i === portions.length - 1) commands.push(this.encodeCopy(copy));
      yield commands;
    }
  }

  /** Timed passes of the last part. */
  get passes(): number {
    return this.#passes;
  }

  /** Encodes the part once more, for a next step with the same dispatches. */
  encodeAhead(part: readonly Work[]): void {
    this.#ahead = { part, commands: this.#encode(part, 0, 1) };
  }

  /** All dispatches in one command buffer, not timed. */
  encodeWhole(part: readonly Work[]): GPUCommandBuffer {
    const encoder = this.#device.createCommandEncoder({ label: 'forward' });
    this.#dispatch(encoder.beginComputePass({ label: 'forward' }), part);
    return encoder.finish();
  }

  encodeCopy(copy: EncodeCopy): GPUCommandBuffer {
    const encoder = this.#device.createCommandEncoder({ label: 'sampled' });
    copy(encoder);
    return encoder.finish();
  }

  #takeAhead(part: readonly Work[]): GPUCommandBuffer | null {
    const ahead = this.#ahead;
    this.#ahead = null;
    return ahead && sameDispatches(ahead.part, part) ? ahead.commands : null;
  }

  #encode(portion: readonly Work[], index: number, count: number): GPUCommandBuffer {
    if (!this.#timing) return this.encodeWhole(portion);
    const encoder = this.#device.createCommandEncoder({ label: 'forward' });
    const passes = this.#timing.mode === 'kernels' ? portion.map((work) => [work]) : [portion];
    for (const [i, works] of passes.entries()) {
      const timestampWrites = this.#timing.passAt(index + i);
      this.#dispatch(encoder.beginComputePass({ label: 'timed', timestampWrites }), works);
    }
    if (index === count - 1) this.#timing.resolve(encoder, index + passes.length);
    return encoder.finish();
  }

  #dispatch(pass: GPUComputePassEncoder, works: readonly Work[]): void {
    for (const work of works) this.#library.encode(pass, work);
    pass.end();
  }
}

/** A rest shorter than two portions is one. */
export function portionsOf(part: readonly Work[]): Work[][] {
  const portions: Work[][] = [];
  let begin = 0;
  for (let size = FIRST_PORTION; part.length - begin >= 2 * size; size *= PORTION_GROWTH) {
    portions.push(part.slice(begin, begin + size));
    begin += size;
  }
  return [...portions, part.slice(begin)];
}

const sameDispatches = (a: readonly Work[], b: readonly Work[]): boolean =>
  a.length === b.length &&
  a.every(({ kernel, bindGroup, x, y, z }, i) => {
    const other = b[i]!;
    return (
      kernel === other.kernel &&
      bindGroup === other.bindGroup &&
      x === other.x &&
      y === other.y &&
      z === other.z
    );
  });
